import DisplayNames
import Glibc

/// A real name in the form that system calls take: bytes with a terminating NUL.
///
/// Nearly all names are stored inline, so that creating one allocates no memory.
package struct CName: Sendable {
  /// Not an `InlineArray`: Swift 6.3 destroys an optional value that has one by its metadata, in 100 instructions.
  private typealias Words4 = (UInt64, UInt64, UInt64, UInt64)
  private typealias Short = (Words4, Words4, Words4)

  private var short: Short = ((0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0))
  /// Used instead of `short` when the name does not fit there.
  private let long: ContiguousArray<CChar>?

  package init(copying pointer: UnsafePointer<CChar>) {
    self.init(bytes: UnsafeRawBufferPointer(start: pointer, count: strlen(pointer)))
  }

  package init(_ name: Name) {
    self = name.bytes.withUnsafeBytes { CName(bytes: $0) }
  }

  /// - Parameter bytes: without a NUL.
  package init(_ bytes: UnsafeBufferPointer<UInt8>) { self.init(bytes: UnsafeRawBufferPointer(bytes)) }

  /// - Parameter bytes: without a NUL.
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

  /// The name without the NUL.
  package var name: Name { withPointer { Name(copying: $0) } }

  package func equals(_ other: UnsafePointer<CChar>) -> Bool { withPointer { strcmp($0, other) == 0 } }

  func equals(_ other: Name) -> Bool {
    withPointer { name in
      strlen(name) == other.bytes.count
        && other.bytes.withUnsafeBytes { memcmp(name, $0.baseAddress!, $0.count) == 0 }
    }
  }

  /// Calls `body` with the C string, which is valid during the call.
  @inline(__always)
  package func withPointer<R: ~Copyable, E: Error>(_ body: (UnsafePointer<CChar>) throws(E) -> R) throws(E)
    -> R
  {
    if let long {
      // The array's own method cannot return a noncopyable result. To move each result out of its closure by hand takes
      // longer than most calls that use the name. The bytes keep their address while the array lives.
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
