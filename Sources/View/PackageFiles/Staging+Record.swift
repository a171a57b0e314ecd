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

    fileprivate static func name(for staged: Name) -> CName { CName(Name(staged.bytes + suffix)) }

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
    fileprivate static func content(for staged: Name, in directory: Directory, limit: Int) -> [UInt8]? {
      let bytes = name(for: staged).withPointer { directory.smallFile($0, limit: limit) }
      return bytes?.last == 0 ? bytes : nil
    }

    /// Nil when there is no complete record.
    static func read(for staged: Name, in directory: Directory) -> Record? {
      guard let bytes = content(for: staged, in: directory, limit: 1 << 20),
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

  /// What lies beside the stream of a package, so that a later mount sees whether the stream was written to since the import.
  ///
  /// Any process may set the modification time of a file, but none the change time (ctime). A rename sets that too, so it is known
  /// only once the stream is in staging.
  struct StreamRecord {
    /// The inode number of the package. It has the stream's place in staging for a moment before the two are exchanged.
    let package: UInt64
    /// Nil until the stream is in staging.
    var changed: timespec?

    /// Writes the inode number, ` SECONDS NANOSECONDS` where the change time is known, and a NUL.
    func write(for staged: Name, in directory: Directory) throws(Errno) {
      let time = changed.map { " \($0.tv_sec) \($0.tv_nsec)" } ?? ""
      // One write over a shorter record: a record that a crash has cut off lacks the NUL, or is the earlier one.
      let file = try Record.name(for: staged).withPointer { (name) throws(Errno) in
        try directory.open(name, O_WRONLY | O_CREAT, mode: 0o600)
      }
      try (Array("\(package)\(time)".utf8) + [0]).withUnsafeBytesTyped { (bytes) throws(Errno) in
        try writeFully(file.rawValue, bytes, at: 0)
      }
    }

    /// Nil when there is no complete record.
    static func read(for staged: Name, in directory: Directory) -> StreamRecord? {
      guard let bytes = Record.content(for: staged, in: directory, limit: 64) else { return nil }
      let numbers = bytes.dropLast().split(separator: UInt8(ascii: " ")).map {
        String(decoding: $0, as: UTF8.self)
      }
      guard [1, 3].contains(numbers.count), let package = UInt64(numbers[0]) else { return nil }
      if numbers.count == 1 { return StreamRecord(package: package) }
      guard let seconds = Int(numbers[1]), let nanoseconds = Int(numbers[2]) else { return nil }
      return StreamRecord(package: package, changed: timespec(tv_sec: seconds, tv_nsec: nanoseconds))
    }
  }
}
