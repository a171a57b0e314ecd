import BackingTree
import Glibc
import MacMetadata
import SystemPackage

/// An AppleDouble file that was opened for a client.
struct AppleDoubleFile: ~Copyable {
  private let file: RegularFile
  let header: AppleDouble

  /// Opens the file with the client's credentials, because the kernel has not checked the client's permissions on it.
  ///
  /// - Returns: nil where there is no such file, the client may not read it, or it is not AppleDouble.
  init?(_ path: [UInt8], in directory: Directory, _ client: Client) {
    let opened = path.withCName { path -> RegularFile? in
      // Most files have no sidecar, and then the client's credentials need not be read.
      guard directory.has(path) else { return nil }
      return try? client.openRegular(path, in: directory, O_RDONLY)
    }
    guard let file = opened else { return nil }
    var bytes = [UInt8](repeating: 0, count: Self.largestHeader)
    let count = try? bytes.withUnsafeMutableBytesTyped { (buffer) throws(Errno) in
      try readFully(file.descriptor.rawValue, into: buffer, at: 0)
    }
    guard let header = AppleDouble(Array(bytes.prefix(count ?? 0)), fileSize: Int(file.status.st_size)) else {
      return nil
    }
    self.file = file
    self.header = header
  }

  /// What is read of the file for its header, in bytes. Those of Macs, with the names of some dozen attributes, are shorter.
  private static let largestHeader = 16_384

  /// The bytes of a part; fewer where the file has become shorter meanwhile.
  borrowing func bytes(in range: Range<Int>) throws(Errno) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: range.count)
    let count = try bytes.withUnsafeMutableBytesTyped { (buffer) throws(Errno) in
      try readFully(file.descriptor.rawValue, into: buffer, at: Int64(range.lowerBound))
    }
    return Array(bytes.prefix(count))
  }
}
