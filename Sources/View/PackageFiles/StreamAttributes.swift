import BackingTree
import Glibc
import PackageStream
import SystemPackage

extension View {
  /// The owner of the package that a file becomes: its parts are made with that user's rights. Nil if it becomes none: root may
  /// close a file that another user has filled. But `mv`, `cp -a` and rsync of root make a file, give it to its owner, and then
  /// close it or rename it to its name.
  func packageOwner(of stream: stat, _ client: Client, _ isMadeByClient: Bool) -> Client? {
    if stream.st_uid == client.user { return client }
    guard client.user == 0, isMadeByClient else { return nil }
    // Without a thread, so without supplementary groups.
    return Client(user: stream.st_uid, group: stream.st_gid, thread: 0, umask: client.umask)
  }

  /// Gives a package the group, the access list and the attributes of the file that it was written as, and grants no more access
  /// to the package than to the file. What the stream records is valid within these limits.
  ///
  /// - Parameters:
  ///   - package: the package's directory, which belongs to the owner of the file and has the attributes from the stream.
  ///   - owner: that owner.
  func copyAttributes(
    of stream: borrowing Descriptor, to package: borrowing Descriptor, _ owner: Client
  ) throws(Errno) {
    let (stream, package) = (stream.rawValue, package.rawValue)
    let file = try fileStatus(stream)
    let directory = try fileStatus(package)
    try owner.impersonateWithGroups { () throws(Errno) in
      if file.st_gid != directory.st_gid { try? setOwner(package, uid_t.max, file.st_gid) }
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
      try Array(AccessList.attribute.utf8).withCName { (name) throws(Errno) in
        guard let list = ExtendedAttributes(of: stream).value(name, limit: 1 << 16) else {
          let allowed = file.st_mode & 0o666
          return try setPermissions(package, directory.st_mode & (0o7000 | allowed | (allowed & 0o444) >> 2))
        }
        try AccessList.ofDirectory(list).withUnsafeBytesTyped { (list) throws(Errno) in
          try ExtendedAttributes(of: package).set(name, list, flags: 0)
        }
      }
    }
  }
}
