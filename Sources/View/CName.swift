import DisplayNames
import Glibc

/// A real name ready to be handed to the kernel: bytes with a terminating NUL.
///
/// Nearly all names lie in the value itself, so that to have one allocates nothing.
public struct CName: Sendable {
  private typealias Short = InlineArray<96, CChar>

  private var short = Short(repeating: 0)
  /// Used instead where there is not enough room.
  private let long: ContiguousArray<CChar>?

  public init(copying pointer: UnsafePointer<CChar>) {
    self.init(bytes: UnsafeRawBufferPointer(start: pointer, count: strlen(pointer)))
  }

  public init(_ name: Name) {
    self = name.bytes.withUnsafeBytes { CName(bytes: $0) }
  }

  /// - Parameter bytes: without a NUL.
  public init(_ bytes: UnsafeBufferPointer<UInt8>) { self.init(bytes: UnsafeRawBufferPointer(bytes)) }

  /// The same.
  init(bytes: UnsafeRawBufferPointer) {
    long = bytes.count < MemoryLayout<Short>.size ? nil : Self.copy(bytes)
    if long == nil { withUnsafeMutableBytes(of: &short) { $0.copyMemory(from: bytes) } }
  }

  private static func copy(_ bytes: UnsafeRawBufferPointer) -> ContiguousArray<CChar> {
    ContiguousArray(unsafeUninitializedCapacity: bytes.count + 1) { buffer, count in
      UnsafeMutableRawBufferPointer(buffer).copyMemory(from: bytes)
      buffer[bytes.count] = 0
      count = bytes.count + 1
    }
  }

  /// Without the NUL.
  public var name: Name { withPointer { Name(copying: $0) } }

  public func equals(_ other: UnsafePointer<CChar>) -> Bool { withPointer { strcmp($0, other) == 0 } }

  /// Lends the C string for the time of the call.
  @inline(__always)
  public func withPointer<R: ~Copyable, E: Error>(_ body: (UnsafePointer<CChar>) throws(E) -> R) throws(E)
    -> R
  {
    if let long {
      // The array lends its bytes for nothing that may be noncopyable; to carry each result out of there by hand takes longer
      // than what most calls do. They stay where they are while the array lives.
      let pointer = long.withUnsafeBufferPointer { $0.baseAddress! }
      defer { withExtendedLifetime(long) {} }
      return try body(pointer)
    }
    return try withUnsafePointer(to: short) { (short) throws(E) in
      try body(UnsafeRawPointer(short).assumingMemoryBound(to: CChar.self))
    }
  }
}

extension Name {
  /// A copy of a C string.
  init(copying pointer: UnsafePointer<CChar>) {
    self.init(UnsafeRawBufferPointer(start: pointer, count: strlen(pointer)))
  }
}
