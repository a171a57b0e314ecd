import DisplayNames
import Glibc

/// A real name ready to be handed to the kernel: bytes with a terminating NUL.
public struct CName: Sendable {
  private let storage: ContiguousArray<CChar>

  public init(copying pointer: UnsafePointer<CChar>) {
    storage = ContiguousArray(UnsafeBufferPointer(start: pointer, count: strlen(pointer) + 1))
  }

  public init(_ name: Name) {
    var bytes = ContiguousArray<CChar>()
    bytes.reserveCapacity(name.bytes.count + 1)
    for byte in name.bytes { bytes.append(CChar(bitPattern: byte)) }
    bytes.append(0)
    storage = bytes
  }

  /// Without the NUL.
  public var name: Name { Name(storage.dropLast().lazy.map { UInt8(bitPattern: $0) }) }

  public func equals(_ other: UnsafePointer<CChar>) -> Bool { withPointer { strcmp($0, other) == 0 } }

  /// Lends the C string for the time of the call.
  @inline(__always)
  public func withPointer<R: ~Copyable, E: Error>(_ body: (UnsafePointer<CChar>) throws(E) -> R) throws(E)
    -> R
  {
    var result: Result<R, E>?
    storage.withUnsafeBufferPointer { buffer in
      do throws(E) { result = .success(try body(buffer.baseAddress!)) } catch { result = .failure(error) }
    }
    return try result.take()!.get()
  }
}

extension Name {
  /// A copy of a C string.
  init(copying pointer: UnsafePointer<CChar>) {
    self.init(UnsafeRawBufferPointer(start: pointer, count: strlen(pointer)))
  }
}
