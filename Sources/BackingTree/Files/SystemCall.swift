import Glibc
import SystemPackage

/// Runs a system call and repeats it on EINTR.
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
  /// Calls `body` with the bytes as a NUL-terminated C string, valid during the call.
  @inlinable @inline(__always)
  public func withCName<R: ~Copyable, E: Error>(_ body: (UnsafePointer<CChar>) throws(E) -> R) throws(E) -> R
  {
    var terminated = ContiguousArray<CChar>()
    terminated.reserveCapacity(underestimatedCount + 1)
    // Without specialization this runs for any kind of sequence, and copying byte by byte takes as long as a system call.
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
