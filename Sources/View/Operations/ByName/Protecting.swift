import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// Applications that were made through the mount. They can be changed until it is unmounted, because programs unpack and build
/// applications piece by piece.
final class OwnApplications: Sendable {
  private static let limit = 4096
  private let made = Guarded<Set<FileIdentity>>([])

  func insert(_ application: FileIdentity) {
    made.withLock { if $0.count < Self.limit { $0.insert(application) } }
  }

  func contains(_ application: FileIdentity) -> Bool { made.withLock { $0.contains(application) } }
}

/// Refuses changes of protected entries with EPERM.
extension View {
  /// Called before an entry is created in a directory.
  func refuseAdding(to parent: NodeID) throws(Errno) {
    guard inspector.protectsAnything else { return }
    if try protection(in: parent).contents != .none { throw .notPermitted }
  }

  /// Called before a name is removed.
  func refuseRemoving(_ name: Name, isDirectory: Bool, from parent: NodeID) throws(Errno) {
    if name == ContainerData.realName { throw .notPermitted }
    guard inspector.protectsAnything else { return }
    let path = try protection(in: parent)
    if path.contents == .readOnly || path.entry(name, isDirectory: isDirectory) == .readOnly {
      throw .notPermitted
    }
  }

  /// Called before an entry moves, and replaces `existing` if that is given.
  func refuseMoving(
    _ name: Name, isDirectory: Bool, from old: NodeID, to new: NodeID, over existing: Name?
  ) throws(Errno) {
    try refuseRemoving(name, isDirectory: isDirectory, from: old)
    try refuseAdding(to: new)
    if let existing { try refuseRemoving(existing, isDirectory: isDirectory, from: new) }
  }

  /// Called before the content or the attributes of a file change.
  func refuseAltering(_ id: NodeID) throws(Errno) {
    guard id != NodeTable.root, let link = nodes.link(of: id) else { return }
    if link.name.equals(ContainerData.realName) { throw .notPermitted }
    guard inspector.protectsAnything else { return }
    let path = try protection(in: link.parent)
    if path.entry(link.name.name, isDirectory: link.type == .directory) != .none {
      throw .notPermitted
    }
  }

  /// Called after a directory was created with, or moved to, the name `name`.
  func noteApplication(_ name: Name, _ identity: FileIdentity) {
    guard inspector.protectsAnything, name.bytes.suffix(4).elementsEqual(".app".utf8) else { return }
    packages.ownApplications.insert(identity)
  }

  private func protection(in id: NodeID) throws(Errno) -> ProtectionPath {
    var path = ProtectionPath(options: options)
    var names: [Name] = []
    for link in try links(to: id) {
      let name = link.name.name
      path.enter(name) {
        guard !packages.ownApplications.contains(link.identity), let parent = try? directory(link.parent)
        else {
          return false
        }
        let site = Site(role: options.role(ofPath: names), rules: DirectoryRules(options.rules, in: names))
        return inspector.isPackage(name, in: parent.directory, at: site)
      }
      names.append(name)
    }
    return path
  }
}
