import BackingTree

/// A file of the backing tree as a lookup found it, by which the node table finds its node.
struct LookedUpFile {
  let identity: FileIdentity
  /// The type of the backing file.
  let type: FileType
  let nodeKind: NodeKind
  /// The directory that the file was found in, and its real name there.
  let parent: NodeID
  let name: UnsafePointer<CChar>
  /// Whether the file was looked up by that name.
  var byRealName = true
  /// Whether it was looked up by a name that is only equal to its real name or display name.
  var isMatch = false
  /// Whether the file has no other name, so that the kernel may cache this one.
  var isOnlyName = true
  /// That of a directory where it has to distinguish it from a removed one. (`Source.birth(of:)`)
  var birth = Birth.unknown
  /// Whether it is the root of a subvolume. Where it replaces that of a deleted one, which had its device number, no file of that
  /// one is a file of this one.
  var isSubvolume = false
  /// The file's nodeid in an exported view, if it has one that lasts. Then this decides whether the file is the node's.
  var durable: DurableNodeID?
}
