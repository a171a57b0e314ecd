import BackingTree
import Glibc
import PackageStream
import SystemPackage

extension View {
  /// The owner of the package that a file becomes: its parts are made with that user's rights, and get the group of the file. Nil
  /// if it becomes none: root may close a file that another user has filled. But `mv`, `cp -a` and rsync of root make a file, give
  /// it to its owner, and then close it or rename it to its name.
  func packageOwner(of stream: stat, _ client: Client, _ isMadeByClient: Bool) -> Client? {
    guard stream.st_uid == client.user || client.user == 0 && isMadeByClient else { return nil }
    // Without a thread, so without supplementary groups.
    return Client(user: stream.st_uid, group: stream.st_gid, thread: 0, umask: client.umask)
  }

  /// The users that may write to the parts of a package which are unpacked from a file.
  ///
  /// - Parameter package: the directory to unpack in, with a set-group-ID bit if the parts get its group.
  func writers(
    of stream: borrowing Descriptor, unpackedInto package: borrowing Descriptor
  ) throws(Errno) -> WritePermission {
    let (file, directory) = (try fileStatus(stream.rawValue), try fileStatus(package.rawValue))
    return WritePermission(
      mode: file.st_mode, accessList: accessList(of: stream.rawValue),
      isSameGroup: directory.st_gid == file.st_gid && directory.st_mode & S_ISGID != 0)
  }

  private func accessList(of stream: CInt) -> [UInt8]? {
    ExtendedAttributes(of: stream).value(AccessList.attribute, limit: 1 << 16)
  }

  /// Gives a package the access list and the attributes of the file that it was written as, and grants no more access to the
  /// package than to the file. What the stream records is valid within these limits.
  ///
  /// - Parameters:
  ///   - package: the package's directory, which belongs to the owner of the file and has the mode and the attributes from the
  ///     stream, but no access list.
  ///   - owner: that owner.
  func copyAttributes(
    of stream: borrowing Descriptor, to package: borrowing Descriptor, _ owner: Client
  ) throws(Errno) {
    let (stream, package) = (stream.rawValue, package.rawValue)
    let file = try fileStatus(stream)
    let directory = try fileStatus(package)
    try owner.impersonateWithGroups { () throws(Errno) in
      for attribute in (try? ExtendedAttributes(of: stream).names()) ?? []
      where attribute.starts(with: "user.".utf8) {
        try attribute.withCName { (name) throws(Errno) in
          let value = ExtendedAttributes(of: stream).value(name, limit: 1 << 16)
          // Attributes that the stream has set already are skipped: a directory that has become read-only would refuse them.
          guard let value, value != ExtendedAttributes(of: package).value(name, limit: 1 << 16) else {
            return
          }
          try value.withUnsafeBytesTyped { (value) throws(Errno) in
            try ExtendedAttributes(of: package).set(name, value, flags: 0)
          }
        }
      }
      guard let list = accessList(of: stream).map(AccessList.ofDirectory) else {
        let allowed = file.st_mode & 0o666
        return try setPermissions(package, directory.st_mode & (0o7000 | allowed | (allowed & 0o444) >> 2))
      }
      try list.withUnsafeBytesTyped { (list) throws(Errno) in
        try ExtendedAttributes(of: package).set(AccessList.attribute, list, flags: 0)
      }
    }
  }
}
