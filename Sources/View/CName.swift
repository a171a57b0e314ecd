import DisplayNames
import Glibc

/// A real name ready to be handed to the kernel: bytes with a terminating NUL.
public struct CName: Sendable {
  private let storage: ContiguousArray<CChar>

  public init(copying pointer: UnsafePointer<CChar>) {
    storage = ContiguousArray(UnsafeBufferPointer(start: pointer, count: strlen(pointer) + 1))
  }

  public init(_ name: Name) {
    storage = name.bytes.withUnsafeBytes { CName(bytes: $0).storage }
  }

  /// - Parameter bytes: without a NUL.
  public init(_ bytes: UnsafeBufferPointer<UInt8>) { self.init(bytes: UnsafeRawBufferPointer(bytes)) }

  /// The same.
  init(bytes: UnsafeRawBufferPointer) {
    storage = ContiguousArray(unsafeUninitializedCapacity: bytes.count + 1) { buffer, count in
      UnsafeMutableRawBufferPointer(buffer).copyMemory(from: bytes)
      buffer[bytes.count] = 0
      count = bytes.count + 1
    }
  }

  /// Without the NUL.
  public var name: Name { storage.withUnsafeBytes { Name($0.dropLast()) } }

  public func equals(_ other: UnsafePointer<CChar>) -> Bool { withPointer { strcmp($0, other) == 0 } }

  /// Lends the C string for the time of the call.
  @inline(__always)
  public func withPointer<R: ~Copyable, E: Error>(_ body: (UnsafePointer<CChar>) throws(E) -> R) throws(E)
    -> R
  {
    // The array lends its bytes for nothing that may be noncopyable; to carry each result out of there by hand takes longer
    // than what most calls do. They stay where they are while the array lives.
    let pointer = storage.withUnsafeBufferPointer { $0.baseAddress! }
    defer { withExtendedLifetime(storage) {} }
    return try body(pointer)
  }
}

extension Name {
  /// A copy of a C string.
  init(copying pointer: UnsafePointer<CChar>) {
    self.init(UnsafeRawBufferPointer(start: pointer, count: strlen(pointer)))
  }
}
