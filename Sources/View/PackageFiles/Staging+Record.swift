import BackingTree
import DisplayNames
import Glibc
import SystemPackage

extension Staging {
  /// The client that is removing a package, and the package's place in the tree. A removal that a crash has interrupted is
  /// finished with the credentials of that client, and what the client may not delete is put back.
  struct Record {
    let credentials: Credentials
    /// The real names from SOURCE to the package. For a staging directory beside the package, the package's name alone.
    let path: [Name]

    var directory: [UInt8] { Array(path.dropLast().map(\.bytes).joined(separator: [UInt8(ascii: "/")])) }

    private static let suffix = Array("-record".utf8)

    private static func name(for staged: Name) -> CName { CName(Name(staged.bytes + suffix)) }

    /// The name of the entry that a record belongs to; nil if `name` is not the name of a record.
    static func owner(of name: Name) -> Name? {
      guard name.bytes.count > suffix.count, name.bytes.suffix(suffix.count).elementsEqual(suffix) else {
        return nil
      }
      return Name(Array(name.bytes.dropLast(suffix.count)))
    }

    static func remove(for staged: Name, in directory: Directory) {
      name(for: staged).withPointer { try? directory.unlink($0) }
    }

    /// Writes `USER GROUP UMASK GROUPS...`, a newline, the path and a NUL. A record that a crash has cut off lacks the NUL.
    func write(for staged: Name, in directory: Directory, isLocal: Bool) throws(Errno) {
      let numbers = [credentials.user, credentials.group, UInt32(credentials.umask)] + credentials.groups
      let path = isLocal ? Array(path.suffix(1)) : path
      let bytes =
        Array(numbers.map(String.init).joined(separator: " ").utf8) + [UInt8(ascii: "\n")]
        + path.map(\.bytes).joined(separator: [UInt8(ascii: "/")]) + [0]
      do throws(Errno) {
        let file = try Self.name(for: staged).withPointer { (name) throws(Errno) in
          try directory.open(name, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
        }
        try bytes.withUnsafeBytesTyped { (bytes) throws(Errno) in try writeFully(file.rawValue, bytes, at: 0)
        }
      } catch {
        Self.remove(for: staged, in: directory)
        throw error
      }
    }

    /// Nil when there is no complete record.
    static func read(for staged: Name, in directory: Directory) -> Record? {
      guard let bytes = name(for: staged).withPointer({ directory.smallFile($0, limit: 1 << 20) }),
        bytes.last == 0,
        let end = bytes.firstIndex(of: UInt8(ascii: "\n"))
      else { return nil }
      let numbers = bytes[..<end].split(separator: UInt8(ascii: " ")).map {
        UInt32(String(decoding: $0, as: UTF8.self))
      }
      let path = bytes[(end + 1)...].dropLast().split(separator: UInt8(ascii: "/")).map { Name(Array($0)) }
      guard numbers.count >= 3, !numbers.contains(nil), !path.isEmpty else { return nil }
      let known = numbers.compactMap(\.self)
      return Record(
        credentials: Credentials(
          user: known[0], group: known[1], groups: Array(known[3...]), umask: mode_t(known[2])),
        path: path)
    }
  }
}
