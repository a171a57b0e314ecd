/// The kinds of names that lead to an entry: its real name, its display name if the two differ, and names that are only equal to
/// one of them (the option `matching`).
///
/// The kernel may hold a dentry for each. When a change uses one of the names, the kernel updates the dentry of that name by
/// itself. The daemon has to invalidate the other dentry. The dentry of a name that is only equal is never valid for longer than
/// its reply, so the kernel looks it up again by itself.
package struct AliasKinds: OptionSet, Sendable {
  package let rawValue: UInt8
  package init(rawValue: UInt8) { self.rawValue = rawValue }
  package static let real = AliasKinds(rawValue: 1)
  package static let display = AliasKinds(rawValue: 2)
  package static let match = AliasKinds(rawValue: 4)

  /// Whether a change through one name leaves a stale dentry of the other.
  var areSeveral: Bool { rawValue.nonzeroBitCount > 1 }
}

/// The names under which the kernel knows a node by the link that is in use. 4 bytes for each node.
struct KernelAliases {
  /// The kinds of names under which the kernel may know the node.
  private(set) var kinds: AliasKinds
  /// Whether the last lookup of the node used its real name.
  private(set) var wasFoundByRealName: Bool
  /// Whether the kernel may cache the link's name: it was the file's only name at the time of the reply.
  var isEntryCacheable: Bool
  /// Whether the node has been seen under several links: the kernel's dentry for one of them says nothing about the others.
  var hadSeveralLinks = false

  /// Those of the root, which has no name.
  static let none = KernelAliases(kinds: [], wasFoundByRealName: true, isEntryCacheable: false)

  /// Those of a node that was looked up for the first time.
  init(byRealName: Bool, isMatch: Bool = false, isEntryCacheable: Bool) {
    self.init(
      kinds: Self.kind(byRealName, isMatch), wasFoundByRealName: byRealName,
      isEntryCacheable: isEntryCacheable)
  }

  private static func kind(_ byRealName: Bool, _ isMatch: Bool) -> AliasKinds {
    isMatch ? .match : byRealName ? .real : .display
  }

  private init(kinds: AliasKinds, wasFoundByRealName: Bool, isEntryCacheable: Bool) {
    self.kinds = kinds
    self.wasFoundByRealName = wasFoundByRealName
    self.isEntryCacheable = isEntryCacheable
  }

  /// Records that the kernel has a dentry of that name.
  ///
  /// - Parameter isOnly: whether it has no other. It has one for each directory: `d_splice_alias` moves it to the name that was
  ///   looked up last.
  mutating func addAlias(byRealName: Bool, isMatch: Bool = false, isOnly: Bool) {
    let kind = Self.kind(byRealName, isMatch)
    if isOnly { kinds = kind } else { kinds.insert(kind) }
    wasFoundByRealName = byRealName
  }
}
