import CLinux
import Glibc
import SystemPackage

/// Extended attributes of an open file, or of an entry of a directory. A symlink is not followed.
///
/// `getxattrat` exists only since Linux 6.13. The entries of a directory are therefore reached through `/proc/self/fd/N/name`: the
/// `l` calls do not follow the last component, and `N` is the daemon's own descriptor.
public struct ExtendedAttributes: ~Copyable {
  private enum Place {
    case path(ContiguousArray<CChar>)
    case descriptor(CInt)
  }

  private let place: Place

  /// The attributes of the entry `name` in `directory`.
  public init(of name: UnsafePointer<CChar>, in directory: Directory) {
    let length = strlen(name)
    var path = Self.path(of: directory.descriptor, reserving: length + 2)
    path.append(0x2f)
    path.append(contentsOf: UnsafeBufferPointer(start: name, count: length + 1))
    place = .path(path)
  }

  /// The attributes of an entry of the thread's working directory.
  public init(inWorkingDirectory name: UnsafePointer<CChar>) {
    place = .path(ContiguousArray(UnsafeBufferPointer(start: name, count: strlen(name) + 1)))
  }

  /// Whether an entry of the thread's working directory has extended attributes. One system call. (`llistxattr`)
  public static func exist(inWorkingDirectory name: UnsafePointer<CChar>) throws(Errno) -> Bool {
    do throws(Errno) { return try systemCall { llistxattr(name, nil, 0) } > 0 } catch {
      if error == .notSupported || error == .notPermitted { return false }
      throw error
    }
  }

  /// The attributes of an open file. The descriptor may be an O_PATH descriptor of anything but a symlink.
  public init(of descriptor: CInt) { place = .descriptor(descriptor) }

  /// Makes the one of three system calls that reaches the entry.
  ///
  /// An O_PATH descriptor is refused by the call on a descriptor (EBADF), so the call on a path follows. A path takes four times as
  /// long: 4.7 µs instead of 1.1 for `getxattr` (tmpfs, Linux 6.18, EPYC, November 2026).
  ///
  /// - Parameters:
  ///   - opened: the call on a descriptor.
  ///   - followed: the call on a path that ends in the magic link of a descriptor. It must follow that link: a trailing `/.` would
  ///     require a directory.
  ///   - unfollowed: the call on a path that may end in a symlink.
  private func call<R: FixedWidthInteger & SignedInteger>(
    _ opened: (CInt) -> R, followed: (UnsafePointer<CChar>) -> R, unfollowed: (UnsafePointer<CChar>) -> R
  ) throws(Errno) -> R {
    switch place {
    case .path(let path):
      return try systemCall { path.withUnsafeBufferPointer { unfollowed($0.baseAddress!) } }
    case .descriptor(let descriptor):
      do throws(Errno) { return try systemCall { opened(descriptor) } } catch {
        guard error == .badFileDescriptor else { throw error }
        var path = Self.path(of: descriptor, reserving: 1)
        path.append(0)
        return try systemCall { path.withUnsafeBufferPointer { followed($0.baseAddress!) } }
      }
    }
  }

  /// `/proc/self/fd/N`, without NUL, with room for so many more bytes.
  private static func path(of descriptor: CInt, reserving room: Int) -> ContiguousArray<CChar> {
    var path = ContiguousArray<CChar>()
    path.reserveCapacity(prefix.count + 10 + room)
    path.append(contentsOf: prefix)
    var power: CInt = 1
    while descriptor / power >= 10 { power *= 10 }
    while power > 0 {
      path.append(CChar(0x30 + descriptor / power % 10))
      power /= 10
    }
    return path
  }

  private static let prefix = ContiguousArray("/proc/self/fd/".utf8.map { CChar(bitPattern: $0) })

  /// (`getxattr`, `lgetxattr` or `fgetxattr`)
  ///
  /// - Returns: the number of bytes written to the buffer; with an empty buffer, the length of the value.
  public func get(_ name: UnsafePointer<CChar>, into buffer: UnsafeMutableRawBufferPointer) throws(Errno)
    -> Int
  {
    let (value, count) = (buffer.baseAddress, buffer.count)
    return try call {
      fgetxattr($0, name, value, count)
    } followed: {
      getxattr($0, name, value, count)
    } unfollowed: {
      lgetxattr($0, name, value, count)
    }
  }

  /// The value; nil when there is none, it cannot be read or it is longer than `limit` bytes.
  public func value(_ name: UnsafePointer<CChar>, limit: Int) -> [UInt8]? {
    try? [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
      count = try get(name, into: UnsafeMutableRawBufferPointer(buffer))
    }
  }

  /// (`listxattr`, `llistxattr` or `flistxattr`) - Returns: the length of the list of NUL-terminated names.
  public func list(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
    let (names, count) = (buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
    return try call {
      flistxattr($0, names, count)
    } followed: {
      listxattr($0, names, count)
    } unfollowed: {
      llistxattr($0, names, count)
    }
  }

  /// Calls `body` with each name. One system call and no allocation when the list fits into 4096 bytes, as most do.
  public func forEachName(_ body: (UnsafePointer<CChar>) -> Void) throws(Errno) {
    let listed: Result<Int, Errno> = withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 1) { buffer in
      do throws(Errno) {
        let count = try list(into: buffer)
        var offset = 0
        while offset < count {
          let name = (buffer.baseAddress! + offset).assumingMemoryBound(to: CChar.self)
          body(name)
          offset += strlen(name) + 1
        }
        return .success(count)
      } catch { return .failure(error) }
    }
    do { _ = try listed.get() } catch {
      guard error == .outOfRange else { throw error }
      for name in try names() { name.withCName(body) }
    }
  }

  /// All names, in the file system's order.
  public func names() throws(Errno) -> [[UInt8]] {
    while true {
      let size = try list(into: UnsafeMutableRawBufferPointer(start: nil, count: 0))
      if size == 0 { return [] }
      var bytes = [UInt8](repeating: 0, count: size)
      do {
        let count = try bytes.withUnsafeMutableBytesTyped { (buffer) throws(Errno) in try list(into: buffer) }
        return bytes[..<count].split(separator: 0).map(Array.init)
      } catch {
        if error != .outOfRange { throw error }
      }
    }
  }

  /// (`setxattr`, `lsetxattr` or `fsetxattr`)
  public func set(_ name: UnsafePointer<CChar>, _ value: UnsafeRawBufferPointer, flags: CInt) throws(Errno) {
    let (bytes, count) = (value.baseAddress, value.count)
    _ = try call {
      fsetxattr($0, name, bytes, count, flags)
    } followed: {
      setxattr($0, name, bytes, count, flags)
    } unfollowed: {
      lsetxattr($0, name, bytes, count, flags)
    }
  }

  /// (`removexattr`, `lremovexattr` or `fremovexattr`)
  public func remove(_ name: UnsafePointer<CChar>) throws(Errno) {
    _ = try call {
      fremovexattr($0, name)
    } followed: {
      removexattr($0, name)
    } unfollowed: {
      lremovexattr($0, name)
    }
  }
}

extension Array where Element == UInt8 {
  /// `withUnsafeBytes` with a typed error.
  package func withUnsafeBytesTyped<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E)
    -> R
  {
    let result: Result<R, E> = withUnsafeBytes { buffer in
      do throws(E) { return .success(try body(buffer)) } catch { return .failure(error) }
    }
    return try result.get()
  }

  /// `withUnsafeMutableBytes` with a typed error.
  package mutating func withUnsafeMutableBytesTyped<R, E: Error>(
    _ body: (UnsafeMutableRawBufferPointer) throws(E) -> R
  ) throws(E) -> R {
    let result: Result<R, E> = withUnsafeMutableBytes { buffer in
      do throws(E) { return .success(try body(buffer)) } catch { return .failure(error) }
    }
    return try result.get()
  }
}
