import BackingTree
import Glibc

/// The regular files of a package's stream by path. Their data is read on request.
///
/// To find them the stream's heads are read, one after the other, up to a number of members: a stream has no table of its members.
public struct StreamFiles {
  private struct File {
    /// The offset of the member's head.
    let head: Int64
    let data: Int64
    let size: Int64
  }

  private let descriptor: CInt
  private var scanner: StreamScanner
  private var files: [[UInt8]: File] = [:]

  /// - Parameters:
  ///   - descriptor: a regular file open for reading, which the caller keeps open.
  ///   - limit: the number of members after which no more are looked at.
  /// - Throws: when the file is no stream of a package, or is damaged before that number.
  public init(of descriptor: CInt, members limit: Int) throws(PackageImportError) {
    self.descriptor = descriptor
    scanner = try StreamScanner(descriptor, limits: PackageImport.Limits())
    while scanner.memberCount < limit {
      let head = scanner.position
      guard let found = try scanner.next() else { break }
      // A file with holes is larger than 64 KiB and mostly empty, so it is none of those that are looked for.
      guard found.member.kind == .regular, found.member.sparse == nil else { continue }
      files[found.member.path] = File(head: head, data: found.data, size: found.member.size)
    }
  }

  public var paths: some Sequence<[UInt8]> { files.keys }

  /// The size of a file in bytes; nil where there is none of that path.
  public func size(of path: [UInt8]) -> Int64? { files[path]?.size }

  /// The first `length` bytes of a file, or all of a shorter one; nil where there is none, or it cannot be read.
  public func beginning(of path: [UInt8], length: Int) -> [UInt8]? {
    guard let file = files[path] else { return nil }
    return try? read(descriptor, Int(min(Int64(length), file.size)), at: file.data)
  }

  /// An extended attribute of a file.
  public func attribute(_ name: String, of path: [UInt8]) -> [UInt8]? {
    guard let file = files[path] else { return nil }
    var scanner = scanner
    let attributes = (try? scanner.member(at: file.head))?.member.attributes
    return attributes?.first { $0.name.elementsEqual(name.utf8) }?.value
  }
}
