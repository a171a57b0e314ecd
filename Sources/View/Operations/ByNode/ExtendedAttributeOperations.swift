import BackingTree
import DisplayNames
import Glibc
import SystemPackage

extension View {
  /// The prefix of the attributes that the mount itself provides.
  private static let ownPrefix = "user.displayfs."
  static let importsAttribute = "user.displayfs.imports"

  /// (`getxattr`) - Returns: the length of the value, also for an empty buffer.
  package func getAttribute(
    _ id: NodeID, _ name: UnsafePointer<CChar>, into buffer: UnsafeMutableRawBufferPointer, client: Client
  ) throws(Errno) -> Int {
    if strncmp(name, Self.ownPrefix, Self.ownPrefix.utf8.count) == 0 {
      let value = try ownAttribute(String(cString: name + Self.ownPrefix.utf8.count), for: id)
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
      guard error == .noData || error == .notSupported else { throw error }
      if desktopAttribute(name) != nil {
        return try desktopAttribute(name, of: id, client).copied(into: buffer)
      }
      guard options.appleDouble == .merge else { throw reported(error, for: name) }
      return try mergedAttribute(name, of: id, client).copied(into: buffer)
    }
  }

  /// The error to return for an attribute that a file does not have.
  ///
  /// The kernel caches that a file has no access list (ENODATA). It does not cache EOPNOTSUPP, and its permission check then
  /// fails with that error (`check_acl`). It caches no other attribute. But `ls` of coreutils, which reads the label of each
  /// file, reads no more labels after EOPNOTSUPP. (12 entries, Linux 6.18, coreutils 9.1: 2 requests instead of 13)
  private func reported(_ error: Errno, for name: UnsafePointer<CChar>) -> Errno {
    if error == .notSupported, AccessList.areHeld(by: name) { return .noData }
    if error == .noData, !source.isLabelled, strcmp(name, Self.label) == 0 { return .notSupported }
    return error
  }

  /// The label of SELinux. A kernel that runs SELinux sends no requests for it: it gives all files of a FUSE mount one label.
  static let label = "security.selinux"

  /// (`listxattr`) The list leaves out the mount's own attributes. It includes those of the namespace `trusted` only for
  /// clients with CAP_SYS_ADMIN: the backing file system lists them to any process with that capability, which the daemon has
  /// whatever its file-system user is. (xattr(7))
  package func listAttributes(
    _ id: NodeID, into buffer: UnsafeMutableRawBufferPointer, client: Client
  ) throws(Errno) -> Int {
    var (list, trusted): ([UInt8], [UInt8]) = ([], [])
    let macNames = try withAttributes(of: id) { (attributes) throws(Errno) in
      try attributes.forEachName { name in
        // The backing file may have attributes of these names.
        if strncmp(name, Self.ownPrefix, Self.ownPrefix.utf8.count) == 0 { return }
        let bytes = UnsafeRawBufferPointer(start: name, count: strlen(name) + 1)
        if strncmp(name, "trusted.", 8) == 0 {
          trusted.append(contentsOf: bytes)
        } else {
          list.append(contentsOf: bytes)
        }
      }
      return desktopNames(of: id, in: attributes, listed: list, client)
    }
    if !trusted.isEmpty, client.isAdministrator { list += trusted }
    if options.appleDouble == .merge {
      let own = list.split(separator: 0).map(Array.init)
      list += mergedNames(of: id, besides: own, client).flatMap { $0 + [0] }
    }
    for name in macNames { list += Array(name.utf8) + [0] }
    return try list.copied(into: buffer)
  }

  /// (`setxattr`)
  package func setAttribute(
    _ id: NodeID, _ name: UnsafePointer<CChar>, _ value: UnsafeRawBufferPointer, flags: CInt, client: Client
  ) throws(Errno) {
    try refuseOwn(name)
    try refuseAltering(id)
    if AccessList.isHeld(by: name), nodes.isPackageFile(id) {
      let list = AccessList.ofDirectory(value)
      try list.withUnsafeBytesTyped { (list) throws(Errno) in
        try changeAttribute(name, of: id, client) { (attributes) throws(Errno) in
          try attributes.set(name, list, flags: flags)
        }
      }
    } else {
      try changeAttribute(name, of: id, client) { (attributes) throws(Errno) in
        try attributes.set(name, value, flags: flags)
      }
    }
    inspector.metadata.noteSet(name)
    noteAttributes(of: id)
  }

  /// (`removexattr`)
  package func removeAttribute(
    _ id: NodeID, _ name: UnsafePointer<CChar>, client: Client
  ) throws(Errno) {
    try refuseOwn(name)
    try refuseAltering(id)
    try changeAttribute(name, of: id, client) { (attributes) throws(Errno) in try attributes.remove(name) }
    noteAttributes(of: id)
  }

  private func refuseOwn(_ name: UnsafePointer<CChar>) throws(Errno) {
    if strncmp(name, Self.ownPrefix, Self.ownPrefix.utf8.count) == 0 { throw .notPermitted }
  }

  /// Reads with the daemon's credentials: the kernel has checked the client's permissions.
  func withAttributes<R>(
    of id: NodeID, _ body: (borrowing ExtendedAttributes) throws(Errno) -> R
  ) throws(Errno) -> R {
    // These descriptors are of the right file, so it need not be located. The kernel requests the access list of the mount point
    // in each path walk of a client that does not own it, and security.capability before the first write to a file.
    if id == NodeTable.root { return try body(ExtendedAttributes(of: source.root.directory.descriptor)) }
    if let open = openNodes.file(of: id) { return try body(ExtendedAttributes(of: open.descriptor.rawValue)) }
    let located = try locate(id)
    return try withAttributes(of: id, at: located.rawValue, body)
  }

  private func withAttributes<R>(
    of id: NodeID, at located: CInt, _ body: (borrowing ExtendedAttributes) throws(Errno) -> R
  ) throws(Errno) -> R {
    if let link = nodes.link(of: id), link.type == .symlink {
      // The magic link of a symlink's descriptor is indistinguishable from the symlink, so the symlink is reached by its name.
      let parent = try directory(link.parent).directory
      return try link.name.withPointer { (name) throws(Errno) in
        try body(ExtendedAttributes(of: name, in: parent))
      }
    }
    return try body(ExtendedAttributes(of: located))
  }

  private func changeAttribute(
    _ name: UnsafePointer<CChar>, of id: NodeID, _ client: Client,
    _ body: (borrowing ExtendedAttributes) throws(Errno) -> Void
  ) throws(Errno) {
    let located = try locate(id, namedBy: client, isDataChanged: false)
    try changes.own.recording(on: located.rawValue) { () throws(Errno) in
      // `user.` and `system.` attributes depend on the rights of an owner, so they are changed with the client's credentials:
      // the kernel's check relies on the attributes it last received for an open file, and whether an ACL drops a file's
      // set-group-ID bit depends on the credentials of the thread that sets it. The other namespaces depend on capabilities of
      // the client, which only the kernel has seen. The kernel also removes file capabilities from a file that is written, in
      // the name of the writer.
      if strncmp(name, "user.", 5) == 0 || strncmp(name, "system.", 7) == 0 {
        try client.impersonateWithGroups { () throws(Errno) in
          try withAttributes(of: id, at: located.rawValue, body)
        }
      } else {
        try withAttributes(of: id, at: located.rawValue, body)
      }
    }
  }

  /// Handles a change of attributes: Finder info may have changed, and with it how the entry is listed.
  private func noteAttributes(of id: NodeID) {
    guard let link = nodes.link(of: id) else { return }
    guard let view = currentView(of: link.parent) else { return }
    view.noteChangeInside(link.name.name)
    if inspector.metadata.isPresent { invalidateNames(of: link) }
  }

  /// The value of one of the mount's own attributes.
  ///
  /// - Throws: ENODATA for an unknown attribute, and the errors of `explain`.
  private func ownAttribute(_ key: String, for id: NodeID) throws(Errno) -> [UInt8] {
    if Self.ownPrefix + key == Self.importsAttribute {
      return Array((packages.areImported || packages.areImportedBeneath ? "true" : "false").utf8)
    }
    let explanation = try explain(id)
    switch key {
    case "realname": return explanation.realName.bytes
    case "realpath": return explanation.realPathBytes
    case "kind": return Array(explanation.kind.word.utf8)
    case "displayname": return explanation.displayName.bytes
    case "hidden": return Array((explanation.isHidden ? "true" : "false").utf8)
    case "reason": return Array(explanation.reason.utf8)
    case "type": return Array(contentType(of: explanation).identifier.utf8)
    case "mimetype": return Array(contentType(of: explanation).mimeType.utf8)
    case "backup": return Array((isBackedUp(try path(of: explanation)) ? "true" : "false").utf8)
    case "purpose":
      guard let purpose = purpose(of: explanation, at: try path(of: explanation)) else { throw .noData }
      return Array(purpose.utf8)
    default: throw Errno(rawValue: ENODATA)
    }
  }
}

extension [UInt8] {
  /// Copies the value of an extended attribute into the buffer of a getxattr(2). An empty buffer requests only the length.
  ///
  /// - Returns: the length of the value.
  /// - Throws: ERANGE when the buffer is too small.
  package func copied(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
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
