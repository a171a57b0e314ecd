import Glibc
import SystemPackage

/// Reads at an offset until `buffer` is full or the file ends. (`pread`)
///
/// - Returns: the number of bytes read; less than the size of `buffer` only at the end of the file.
public func readFully(
  _ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
) throws(Errno) -> Int {
  var done = 0
  while done < buffer.count {
    let count = try systemCall {
      pread(descriptor, buffer.baseAddress! + done, buffer.count - done, off_t(offset) + off_t(done))
    }
    if count == 0 { break }
    done += count
  }
  return done
}

/// Writes all of `buffer` at an offset. (`pwrite`)
public func writeFully(
  _ descriptor: CInt, _ buffer: UnsafeRawBufferPointer, at offset: Int64
) throws(Errno) {
  var done = 0
  while done < buffer.count {
    done += try systemCall {
      pwrite(descriptor, buffer.baseAddress! + done, buffer.count - done, off_t(offset) + off_t(done))
    }
  }
}

/// Writes all bytes to a pipe or a terminal. (`write`)
public func writeAll(_ bytes: [UInt8], to descriptor: CInt) throws(Errno) {
  var rest = bytes[...]
  while !rest.isEmpty {
    let count = try systemCall { rest.withUnsafeBytes { write(descriptor, $0.baseAddress!, $0.count) } }
    rest = rest.dropFirst(count)
  }
}

extension RegularFile {
  /// The first `limit` bytes, or all of a shorter file; nil on an error.
  public func beginning(limit: Int) -> [UInt8]? {
    try? [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
      count = try readFully(descriptor.rawValue, into: UnsafeMutableRawBufferPointer(buffer), at: 0)
    }
  }
}

extension Directory {
  /// The whole content of a small regular file below this directory, reached without following any symlink.
  ///
  /// For tables that the view reads from the volume. Returns nil for anything but a regular file, for a file larger than `limit`
  /// bytes and on every error. Only regular files are opened.
  public func smallFile(_ path: UnsafePointer<CChar>, limit: Int) -> [UInt8]? {
    guard let file = try? openRegular(path, O_RDONLY), file.status.st_size <= limit else { return nil }
    let size = Int(file.status.st_size)
    // All empty arrays share one buffer. Two threads must not write to it at once, not even zero bytes.
    if size == 0 { return [] }
    let bytes = try? [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
      count = try readFully(file.descriptor.rawValue, into: UnsafeMutableRawBufferPointer(buffer), at: 0)
    }
    return bytes
  }

  /// The first `limit` bytes of a regular file below this directory, or all of a shorter file. Follows no symlink and opens only
  /// regular files. Returns nil for anything else and on every error.
  public func beginning(of path: UnsafePointer<CChar>, limit: Int) -> [UInt8]? {
    (try? openRegular(path, O_RDONLY))?.beginning(limit: limit)
  }

  /// The whole content of a system file, such as one in `/proc`, whose size is not known in advance.
  ///
  /// - Returns: at most 16 MiB; nil when it cannot be read.
  public func wholeFile(_ path: String) -> [UInt8]? {
    guard let file = try? open(path, O_RDONLY) else { return nil }
    var bytes: [UInt8] = []
    let chunk = 64 * 1024
    while bytes.count < 16 << 20 {
      let part = [UInt8](unsafeUninitializedCapacity: chunk) { buffer, count in
        count = (try? systemCall { read(file.rawValue, buffer.baseAddress!, chunk) }) ?? 0
      }
      if part.isEmpty { return bytes }
      bytes += part
    }
    return bytes
  }
}
