import BackingTree
import DisplayNames
import Glibc
import SystemPackage

extension View {
  /// The names of the attributes that the mount answers itself begin so.
  private static let ownPrefix = "user.displayfs."
  static let importsQuestion = "user.displayfs.imports"

  /// (`getxattr`) - Returns: the length of the value; with an empty buffer, the length it has.
  public func getAttribute(
    _ id: NodeID, _ name: UnsafePointer<CChar>, into buffer: UnsafeMutableRawBufferPointer, caller: Caller
  ) throws(Errno) -> Int {
    if strncmp(name, Self.ownPrefix, Self.ownPrefix.utf8.count) == 0 {
      let value = try answer(String(cString: name + Self.ownPrefix.utf8.count), for: id)
      return try value.copied(into: buffer)
    }
    do throws(Errno) {
      let count = try withAttributes(of: id) { (attributes) throws(Errno) in
        try attributes.get(name, into: buffer)
      }
      if AccessList.isHeld(by: name), nodes.isPackageFile(id) {
        AccessList.ofFile(UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(count)))
      }
      return count
    } catch {
      guard options.appleDouble == .merge, error.rawValue == ENODATA || error == .notSupported else {
        throw reported(error, for: name)
      }
      return try mergedAttribute(name, of: id, caller).copied(into: buffer)
    }
  }

  /// The error for an attribute that a file does not have.
  ///
  /// The kernel caches that a file has no access list (ENODATA), but not EOPNOTSUPP, which the permission check then fails with
  /// (`check_acl`). It caches no other attribute. But `ls` of coreutils, which reads the label of each file, reads no more after
  /// EOPNOTSUPP. (12 entries, Linux 6.18, coreutils 9.1: 2 requests instead of 13)
  private func reported(_ error: Errno, for name: UnsafePointer<CChar>) -> Errno {
    if error == .notSupported, AccessList.areHeld(by: name) { return .noData }
    if error == .noData, !isLabelled, strcmp(name, Self.label) == 0 { return .notSupported }
    return error
  }

  /// The label of SELinux. A kernel that runs SELinux does not send requests for it: it gives all files of FUSE one label.
  static let label = "security.selinux"

  /// (`listxattr`) The mount's own attributes are not listed, nor to ordinary users those of the namespace `trusted`: a file
  /// system lists them to a process with CAP_SYS_ADMIN, which the daemon has whatever its file-system user is. (xattr(7))
  public func listAttributes(
    _ id: NodeID, into buffer: UnsafeMutableRawBufferPointer, caller: Caller
  ) throws(Errno) -> Int {
    var (list, trusted): ([UInt8], [UInt8]) = ([], [])
    try withAttributes(of: id) { (attributes) throws(Errno) in
      try attributes.forEachName { name in
        let bytes = UnsafeRawBufferPointer(start: name, count: strlen(name) + 1)
        if strncmp(name, "trusted.", 8) == 0 {
          trusted.append(contentsOf: bytes)
        } else {
          list.append(contentsOf: bytes)
        }
      }
    }
    if !trusted.isEmpty, caller.isAdministrator { list += trusted }
    if options.appleDouble == .merge {
      let own = list.split(separator: 0).map(Array.init)
      list += mergedNames(of: id, besides: own, caller).flatMap { $0 + [0] }
    }
    return try list.copied(into: buffer)
  }

  /// (`setxattr`)
  public func setAttribute(
    _ id: NodeID, _ name: UnsafePointer<CChar>, _ value: UnsafeRawBufferPointer, flags: CInt, caller: Caller
  ) throws(Errno) {
    try refuseOwn(name)
    try refuseAltering(id)
    if AccessList.isHeld(by: name), nodes.isPackageFile(id) {
      let list = AccessList.ofDirectory(value)
      try list.withUnsafeBytesTyped { (list) throws(Errno) in
        try changeAttribute(name, of: id, caller) { (attributes) throws(Errno) in
          try attributes.set(name, list, flags: flags)
        }
      }
    } else {
      try changeAttribute(name, of: id, caller) { (attributes) throws(Errno) in
        try attributes.set(name, value, flags: flags)
      }
    }
    inspector.metadata.isSet(name)
    noteAttributes(of: id)
  }

  /// (`removexattr`)
  public func removeAttribute(
    _ id: NodeID, _ name: UnsafePointer<CChar>, caller: Caller
  ) throws(Errno) {
    try refuseOwn(name)
    try refuseAltering(id)
    try changeAttribute(name, of: id, caller) { (attributes) throws(Errno) in try attributes.remove(name) }
    noteAttributes(of: id)
  }

  private func refuseOwn(_ name: UnsafePointer<CChar>) throws(Errno) {
    if strncmp(name, Self.ownPrefix, Self.ownPrefix.utf8.count) == 0 { throw .notPermitted }
  }

  /// The daemon reads, not the caller: the kernel has checked who may.
  private func withAttributes<R>(
    of id: NodeID, _ body: (borrowing ExtendedAttributes) throws(Errno) -> R
  ) throws(Errno) -> R {
    let located = try locate(id)
    return try withAttributes(of: id, at: located.rawValue, body)
  }

  private func withAttributes<R>(
    of id: NodeID, at located: CInt, _ body: (borrowing ExtendedAttributes) throws(Errno) -> R
  ) throws(Errno) -> R {
    if let location = nodes.location(of: id), location.type == .symlink {
      // The magic link of a symlink's descriptor cannot be told from the symlink: go by its name.
      let parent = try directory(location.parent).directory
      return try location.name.withPointer { (name) throws(Errno) in
        try body(ExtendedAttributes(of: name, in: parent))
      }
    }
    return try body(ExtendedAttributes(of: located))
  }

  private func changeAttribute(
    _ name: UnsafePointer<CChar>, of id: NodeID, _ caller: Caller,
    _ body: (borrowing ExtendedAttributes) throws(Errno) -> Void
  ) throws(Errno) {
    let located = try locate(id, byNameOf: caller, isDataChanged: false)
    try ownChanges.make(on: located.rawValue) { () throws(Errno) in
      // An owner's right is the caller's own: the kernel believes what it last heard of an open file, and whether an ACL
      // costs a file its set-group-ID bit depends on who sets it. The rest hangs on capabilities, which only the kernel
      // has seen, and which it takes away from a file that is written to in the name of the writer.
      if strncmp(name, "user.", 5) == 0 || strncmp(name, "system.", 7) == 0 {
        try caller.actAsMember { () throws(Errno) in try withAttributes(of: id, at: located.rawValue, body) }
      } else {
        try withAttributes(of: id, at: located.rawValue, body)
      }
    }
  }

  /// Finder info may have changed, and with it how the entry is listed.
  private func noteAttributes(of id: NodeID) {
    guard let location = nodes.location(of: id) else { return }
    guard let view = currentView(of: location.parent) else { return }
    view.noteInside(location.name.name)
    if inspector.metadata.isThere { invalidateNames(of: location) }
  }

  /// The view's answers about a file.
  private func answer(_ question: String, for id: NodeID) throws(Errno) -> [UInt8] {
    if Self.ownPrefix + question == Self.importsQuestion {
      return Array((importsPackages || arePackagesImportedBeneath ? "true" : "false").utf8)
    }
    let explanation = try explain(id)
    switch question {
    case "realname": return explanation.realName.bytes
    case "realpath": return explanation.realPath
    case "kind": return Array(explanation.kind.utf8)
    case "displayname": return explanation.displayName.bytes
    case "hidden": return Array((explanation.isHidden ? "true" : "false").utf8)
    case "reason": return Array(explanation.reason.utf8)
    default: throw Errno(rawValue: ENODATA)
    }
  }
}

extension [UInt8] {
  /// The value of an extended attribute, as getxattr(2) hands it out. - Returns: its length, also when nothing but that is
  /// asked for with an empty buffer.
  ///
  /// - Throws: ERANGE when the buffer is too small.
  public func copied(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
    if buffer.count == 0 { return count }
    guard count <= buffer.count else { throw Errno(rawValue: ERANGE) }
    buffer.copyBytes(from: self)
    return count
  }
}

extension Errno {
  /// ENODATA: there is no such attribute.
  static var noData: Errno { Errno(rawValue: Glibc.ENODATA) }
}
