import BackingTree
import Glibc

/// The places at which nodes were seen, and the nodes by place. One place of each node is in use, the latest; a file with several
/// links may have been seen at others, which are kept for when the latest goes away.
///
/// A place holds the node of its directory. So the links own the inode table, and a node that loses its last reference takes the
/// nodes above it along.
struct Links {
  /// (parent, real name)
  struct Place {
    let parent: UInt32
    let name: UnsafePointer<CChar>

    init(_ parent: UInt32, _ name: UnsafePointer<CChar>) {
      self.parent = parent
      self.name = name
    }

    init(_ parent: NodeID, _ name: UnsafePointer<CChar>) { self.init(UInt32(parent), name) }

    var hash: Int { NodeIndex.hash(parent: parent, name) }
  }

  /// The place of a node that is in use, 16 bytes, in the slot of the node's number.
  struct Link {
    /// nil for the root, "" for a file made without a name. (O_TMPFILE)
    fileprivate(set) var name: UnsafeMutablePointer<CChar>?
    fileprivate(set) var parent: UInt32
    var aliases: KernelAliases

    var isNamed: Bool { name.map { $0[0] != 0 } ?? false }

    fileprivate var hash: Int { NodeIndex.hash(parent: parent, name!) }
  }

  typealias Other = (parent: UInt32, name: CName, isKept: Bool)

  private static let mostOthers = 8

  private(set) var inodes: Inodes
  private var links: ContiguousArray<Link>
  private var index = NodeIndex()
  private var others: [UInt32: [Other]] = [:]

  init(root: FileIdentity) {
    inodes = Inodes(root: root)
    links = ContiguousArray(repeating: Link(name: nil, parent: 0, aliases: .none), count: 2)
  }

  /// To be called once, at the end: the links own their names.
  func freeNames() { for link in links { free(link.name) } }

  // MARK: Finding

  subscript(slot: UInt32) -> Link { links[Int(slot)] }

  func isPlaced(_ slot: UInt32, _ place: Place) -> Bool {
    let link = links[Int(slot)]
    return link.parent == place.parent && link.name.map { strcmp($0, place.name) == 0 } ?? false
  }

  /// One of the nodes whose place in use this is, the one for which `isMatch` holds.
  func find(_ place: Place, where isMatch: (UInt32) -> Bool) -> UInt32? {
    index.find(hash: place.hash) { isMatch($0) && isPlaced($0, place) }
  }

  func others(of slot: UInt32) -> [Other] { others[slot] ?? [] }
  func areOthersKept(of slot: UInt32) -> Bool {
    !others.isEmpty && others[slot]?.contains { $0.isKept } ?? false
  }

  /// The nodes whose place in use is in one of some directories.
  func slots(in directories: Set<NodeID>) -> [Int] {
    links.indices.filter { links[$0].name != nil && directories.contains(NodeID(links[$0].parent)) }
  }

  /// Whether a directory is looked up at another place than before, and the node of its old parent has been superseded.
  func hasMovedUnseen(_ slot: UInt32, to parent: UInt32) -> Bool {
    let old = links[Int(slot)].parent
    return slot != 1 && old != parent && inodes[old].standing != .current
  }

  // MARK: Nodes

  mutating func add(_ key: Inodes.Key, _ type: FileType, _ place: Place, _ aliases: KernelAliases) -> UInt32 {
    let slot = inodes.add(key, type)
    let link = Link(name: strdup(place.name), parent: place.parent, aliases: aliases)
    if Int(slot) == links.count { links.append(link) } else { links[Int(slot)] = link }
    inodes.addChild(of: place.parent)
    insert(slot)
    return slot
  }

  mutating func lookUp(_ slot: UInt32) { inodes.lookUp(slot) }

  mutating func forget(_ slot: UInt32, count: UInt64) {
    inodes.forget(slot, count: count)
    releaseIfUnused(slot)
  }

  mutating func changeAliases(of slot: UInt32, _ body: (inout KernelAliases) -> Void) {
    body(&links[Int(slot)].aliases)
  }

  /// Removes a node from the index by identity. The node lives on for the processes that use it.
  mutating func supersede(_ slot: UInt32) { inodes.unindex(slot, .superseded) }

  /// Orphans a node, because its file is gone with all names. The processes that use the node keep it.
  mutating func detach(_ slot: UInt32) {
    inodes.unindex(slot, .detached)
    index.remove(slot, hash: links[Int(slot)].hash)
    removeOthers(of: slot)
  }

  private mutating func releaseIfUnused(_ start: UInt32) {
    var slot = start
    while inodes.isUnused(slot) {
      let link = links[Int(slot)]
      index.remove(slot, hash: link.hash)
      free(link.name)
      links[Int(slot)].name = nil
      inodes.release(slot)
      removeOthers(of: slot)
      inodes.removeChild(of: link.parent)
      slot = link.parent
    }
  }

  // MARK: Places

  /// Makes a place the node's latest, which is the one in use. The earlier place is kept for when the latest goes away, if the
  /// file may have both links.
  mutating func addPlace(_ slot: UInt32, _ place: Place) {
    let link = links[Int(slot)]
    guard let current = link.name, !isPlaced(slot, place) else { return }
    if others[slot]?.count ?? 0 < Self.mostOthers {
      inodes.addChild(of: link.parent)
      others[slot, default: []].append((link.parent, CName(copying: current), link.aliases.isKept))
    }
    let isKept = others[slot]?.first { Self.isAt($0, place) }?.isKept ?? false
    setPlace(slot, place)
    links[Int(slot)].aliases.wasLinked = true
    links[Int(slot)].aliases.isKept = isKept
  }

  /// Replaces the place of a node that is in use.
  mutating func setPlace(_ slot: UInt32, _ place: Place) {
    let old = links[Int(slot)]
    // First, so that a directory that loses a place and gets one is not released meanwhile.
    inodes.addChild(of: place.parent)
    removeOther(of: slot, place)
    let name = strdup(place.name)
    index.remove(slot, hash: old.hash)
    free(old.name)
    links[Int(slot)].name = name
    links[Int(slot)].parent = place.parent
    insert(slot)
    removeChild(of: old.parent)
  }

  /// Removes the place of a node that is in use, if the node was seen at another one.
  mutating func leavePlace(_ slot: UInt32) {
    guard let next = others[slot]?.last else { return }
    next.name.withPointer { setPlace(slot, Place(next.parent, $0)) }
    links[Int(slot)].aliases.isKept = next.isKept
  }

  mutating func removeOther(of slot: UInt32, _ place: Place) {
    guard !others.isEmpty, let index = others[slot]?.firstIndex(where: { Self.isAt($0, place) }) else {
      return
    }
    others[slot]!.remove(at: index)
    if others[slot]!.isEmpty { others[slot] = nil }
    removeChild(of: place.parent)
  }

  private mutating func removeOthers(of slot: UInt32) {
    guard !others.isEmpty else { return }
    for other in others.removeValue(forKey: slot) ?? [] { removeChild(of: other.parent) }
  }

  private mutating func removeChild(of directory: UInt32) {
    inodes.removeChild(of: directory)
    releaseIfUnused(directory)
  }

  private static func isAt(_ other: Other, _ place: Place) -> Bool {
    other.parent == place.parent && other.name.equals(place.name)
  }

  private mutating func insert(_ slot: UInt32) {
    index.insert(slot, hash: links[Int(slot)].hash) { links[Int($0)].hash }
  }

  // MARK: Memory

  mutating func takeReleased() -> [UInt32] { inodes.takeReleased() }
  mutating func reuse(_ slots: [UInt32]) { inodes.reuse(slots) }

  mutating func shrink() {
    guard let end = inodes.shrink() else { return }
    links = ContiguousArray(links[..<end])
    index.fit { links[Int($0)].hash }
  }
}
