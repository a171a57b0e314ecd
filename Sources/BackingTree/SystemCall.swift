import Glibc
import SystemPackage

/// Runs one system call, again while a signal interrupts it.
///
/// - Throws: the call's `errno` when it returns -1.
@inlinable @inline(__always) @discardableResult
public func systemCall<Value: FixedWidthInteger & SignedInteger>(
  _ call: () -> Value
) throws(Errno) -> Value {
  while true {
    let value = call()
    if value != -1 { return value }
    let code = errno
    if code != EINTR { throw Errno(rawValue: code) }
  }
}

extension Sequence<UInt8> {
  /// Lends the bytes as a NUL-terminated C string that lives as long as the call of `body`.
  @inlinable @inline(__always)
  public func withCName<R: ~Copyable, E: Error>(_ body: (UnsafePointer<CChar>) throws(E) -> R) throws(E) -> R
  {
    var terminated = ContiguousArray<CChar>()
    terminated.reserveCapacity(underestimatedCount + 1)
    // This is compiled for every kind of sequence at once: one byte at a time takes as long as a system call.
    let copied: Void? = withContiguousStorageIfAvailable { bytes in
      bytes.withMemoryRebound(to: CChar.self) { terminated.append(contentsOf: $0) }
    }
    if copied == nil { for byte in self { terminated.append(CChar(bitPattern: byte)) } }
    terminated.append(0)
    var result: Result<R, E>?
    terminated.withUnsafeBufferPointer { buffer in
      do throws(E) { result = .success(try body(buffer.baseAddress!)) } catch { result = .failure(error) }
    }
    return try result.take()!.get()
  }
}
