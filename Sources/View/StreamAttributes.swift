import BackingTree
import Glibc
import PackageStream
import SystemPackage

extension View {
  /// A package gets what was given to the file that it was written as: its group, its access list and attributes, and nobody may
  /// do more with it than with the file. What the stream says holds within that.
  ///
  /// - Parameter package: its directory, the caller's own, with what the stream says of it.
  func giveAttributes(
    of stream: borrowing Descriptor, to package: borrowing Descriptor, _ caller: Caller
  ) throws(Errno) {
    let (stream, package) = (stream.rawValue, package.rawValue)
    let file = try fileStatus(stream)
    let directory = try fileStatus(package)
    try caller.actAsMember { () throws(Errno) in
      if file.st_gid != directory.st_gid { try? setOwner(package, uid_t.max, file.st_gid) }
      for attribute in (try? ExtendedAttributes(of: stream).names()) ?? []
      where attribute.starts(with: "user.".utf8) {
        try attribute.withCName { (name) throws(Errno) in
          let value = ExtendedAttributes(of: stream).value(name, limit: 1 << 16)
          // What the stream has said already, too: in a directory that is read-only by now it could not be set.
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
