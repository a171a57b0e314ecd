import BackingTree
import Glibc

/// The number by which the kernel knows a file; 1 is the root of the view.
public typealias NodeID = UInt64

/// The kind of a file's node: a package has one node as a regular file and one as a directory.
public enum Facet: UInt8, Sendable { case plain, packageFile }

/// The files that the kernel knows, one node for each (device, inode, facet).
///
/// File systems reuse inode numbers. The kernel gives up an inode if a reply states another type for it than before, and every
/// process that has the file open then gets EIO. So the type of a node never changes.
///
/// A node holds no descriptor: its file is reached as (parent, real name) and checked against its identity. A node is removed
/// when the kernel has forgotten it and no other node lies below it.
///
/// This is the lock; what it protects are two tables by slot, the number of a node:
/// ```
///   identity, facet ──> index ──> Inode     40 bytes   file, type, nlookup, generation         (Inodes)
///   parent, name ─────> index ──> Link      16 bytes   place in use, KernelAliases             (Links)
///                                   └─────> name       32 bytes of malloc(3) where it is of ordinary length
/// ```
/// With 8 to 16 bytes in each index, a node takes about 110 bytes.
public final class NodeTable: Sendable {
  public static let root: NodeID = 1

  /// The place of a node, (parent, real name), as of the last time it was looked up.
  public struct Location: Sendable {
    public let parent: NodeID
    public let name: CName
    public let identity: FileIdentity
    /// The type of the backing file, for either facet of the node.
    public let type: BackingTree.FileType
    public let facet: Facet
    /// Whether the last lookup of the node used its real name.
    public let wasGivenByRealName: Bool
    /// Whether the kernel may cache this name.
    let isKept: Bool
    /// Whether the kernel may cache other names under which the file was seen. (hard links)
    let areOthersKept: Bool

    /// Whether a file of that status is the node's, as far as can be seen: a file of another type is not, even if it reuses the
    /// inode number.
    func isOf(_ status: stat) -> Bool {
      FileIdentity(status) == identity && FileType(mode: status.st_mode) == type
    }
  }

  /// How a file found at one place relates to the node that has its identity but was seen at another place.
  public enum Sameness: Sendable {
    case unknown
    /// The file is the node's, and has one more name.
    case linked
    /// The file is the node's, and has another name instead.
    case moved
    /// The file is the node's. The node keeps its place until the kernel has learned that the file has another name.
    case moving
    case another
  }

  /// A node that is about to be returned to the kernel in a reply, with its nlookup already raised by one.
  public struct Remembered: Sendable {
    public let id: NodeID
    public let generation: UInt64
    /// The kinds of names under which the kernel may know the node, including the one just looked up.
    let given: AliasKinds
    /// The node of a file that is gone and left its inode number to this one.
    var gone: NodeID?
    /// Whether the node is a directory that was at another place when it was last looked up.
    var hasMoved = false
  }
  private let lock = RecursionFreeLock(.leaf)
  @exclusivity(unchecked) nonisolated(unsafe) private var state: Links
  private let onRelease: @Sendable (NodeID) -> Void

  /// - Parameter onRelease: called when a node is removed, before its number may be reused and with the table unlocked. It ends
  ///   what else is kept for the node, and closing a descriptor may take long.
  public init(root identity: FileIdentity, onRelease: @escaping @Sendable (NodeID) -> Void = { _ in }) {
    self.onRelease = onRelease
    state = Links(root: identity)
  }

  deinit { state.freeNames() }

  func locked<R>(_ body: (inout Links) -> R) -> R {
    lock.lock()
    let result = body(&state)
    let isAnyReleased = state.inodes.isAnyReleased
    lock.unlock()
    if isAnyReleased { release() }
    return result
  }

  /// Frees the numbers of removed nodes for reuse.
  private func release() {
    lock.lock()
    let released = state.takeReleased()
    lock.unlock()
    for slot in released { onRelease(NodeID(slot)) }
    lock.lock()
    state.reuse(released)
    lock.unlock()
  }

  /// The number of nodes in the table.
  public var count: Int { locked { $0.inodes.count } }

  /// Finds or adds the node of a file found under `name` in `parent`, and raises its nlookup by one.
  ///
  /// - Parameters:
  ///   - type: the type of the backing file.
  ///   - name: the file's real name.
  ///   - byRealName: whether the file was looked up by that name.
  ///   - isOnlyName: whether the file has no other name, so that the kernel may cache this one.
  ///   - sameness: how the file relates to the node with its identity, if that node was seen at another place. A directory
  ///     always is the node's, unless this is `another`: then its inode number was a removed directory's.
  /// - Returns: nil if the node was seen at another place and `sameness` is `unknown`.
  public func remember(
    _ identity: FileIdentity, _ type: BackingTree.FileType, facet: Facet, parent: NodeID,
    name: UnsafePointer<CChar>, byRealName: Bool = true, isOnlyName: Bool = true, sameness: Sameness
  ) -> Remembered? {
    locked { links -> Remembered? in
      let key = Inodes.Key(identity, facet)
      let place = Links.Place(parent, name)
      var gone: NodeID?
      if let found = links.inodes.find(key) {
        let isDirectory = type == .directory
        let isPlainDirectory = isDirectory && facet == .plain
        let isNamed = links[found].isNamed
        let isMoved = !links.isPlaced(found, place)
        let isElsewhere = isMoved && isNamed && !isDirectory
        if isElsewhere, sameness == .unknown { return nil }
        if links.inodes[found].type != type || sameness == .another && (isElsewhere || isDirectory) {
          links.detach(found)
          gone = NodeID(found)
        } else if isPlainDirectory, links.hasMovedUnseen(found, to: place.parent) {
          links.supersede(found)
        } else {
          links.lookUp(found)
          if isMoved, found != 1 {
            if isElsewhere && sameness == .moved || !isNamed {
              links.setPlace(found, place)
            } else if !(isElsewhere && sameness == .moving) {
              links.addPlace(found, place)
            }
          }
          links.changeAliases(of: found) { aliases in
            aliases.give(byRealName: byRealName, isOnly: isPlainDirectory)
            if isOnlyName { aliases.isKept = true }
          }
          return Remembered(
            id: NodeID(found), generation: links.inodes[found].generation, given: links[found].aliases.given,
            hasMoved: isMoved && isPlainDirectory && found != 1)
        }
      }
      let new = links.add(key, type, place, KernelAliases(byRealName: byRealName, isKept: isOnlyName))
      return Remembered(
        id: NodeID(new), generation: links.inodes[new].generation, given: links[new].aliases.given, gone: gone
      )
    }
  }

  /// Subtracts `count` from the nlookup of a node. (FORGET)
  public func forget(_ id: NodeID, count: UInt64) {
    locked { links in
      guard id != Self.root, let slot = links.inodes.slot(of: id) else { return }
      links.forget(slot, count: count)
    }
  }

  /// Frees the memory of removed nodes. Nodes that the kernel knows keep their numbers, so everything before the last of them
  /// stays. This takes a few milliseconds for a million nodes, and the table is locked meanwhile.
  public func shrink() { locked { $0.shrink() } }

  /// The place of a node; nil when its last name is gone, or it has no name yet.
  public func location(of id: NodeID) -> Location? {
    locked { links -> Location? in
      guard let slot = links.inodes.slot(of: id) else { return nil }
      let inode = links.inodes[slot]
      let link = links[slot]
      guard id == Self.root || link.isNamed && inode.standing != .detached else { return nil }
      return Location(
        parent: NodeID(link.parent), name: link.name.map { CName(copying: $0) } ?? CName(copying: ""),
        identity: inode.identity, type: inode.type, facet: inode.facet,
        wasGivenByRealName: link.aliases.wasGivenByRealName, isKept: link.aliases.isKept,
        areOthersKept: links.areOthersKept(of: slot))
    }
  }

  /// The identity of a node's file; nil when there is no such node.
  public func identity(of id: NodeID) -> FileIdentity? { inode(id)?.identity }

  /// The type of a node's backing file; nil when there is no such node.
  func type(of id: NodeID) -> FileType? { inode(id)?.type }

  /// Whether a node is a package shown as a file.
  func isPackageFile(_ id: NodeID) -> Bool { inode(id)?.facet == .packageFile }

  /// Whether a node has that identity, whatever has become of its names.
  public func isNode(_ id: NodeID, _ identity: FileIdentity) -> Bool { inode(id)?.identity == identity }

  private func inode(_ id: NodeID) -> Inodes.Inode? {
    locked { links in links.inodes.slot(of: id).map { links.inodes[$0] } }
  }

  /// The node of a file; nil when the kernel does not know it.
  public func node(of identity: FileIdentity, facet: Facet = .plain) -> NodeID? {
    locked { $0.inodes.find(Inodes.Key(identity, facet)).map(NodeID.init) }
  }

  /// The node at a place.
  func node(at parent: NodeID, _ name: UnsafePointer<CChar>, facet: Facet) -> NodeID? {
    locked { links in
      links.find(Links.Place(parent, name)) { links.inodes[$0].facet == facet }.map(NodeID.init)
    }
  }

  /// Whether a directory node is, or lies below, the directory of that identity.
  public func isBelow(_ id: NodeID, _ identity: FileIdentity) -> Bool {
    locked { links in
      var current = id
      var steps = 0
      while current != Self.root, let slot = links.inodes.slot(of: current), steps < 65_536 {
        if links.inodes[slot].identity == identity { return true }
        current = NodeID(links[slot].parent)
        steps += 1
      }
      return false
    }
  }

  /// The nodes with their latest place in one of some directories.
  func located(in directories: Set<NodeID>) -> [(id: NodeID, location: Location)] {
    let ids = locked { $0.slots(in: directories) }
    return ids.compactMap { id in location(of: NodeID(id)).map { (NodeID(id), $0) } }
  }
}
