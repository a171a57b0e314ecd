/// The kinds of names that lead to an entry: its real name, and its display name if the two differ.
///
/// The kernel may hold a dentry for each. When a change uses one of the names, the kernel updates the dentry of that name by
/// itself. The daemon has to invalidate the other dentry.
public struct AliasKinds: OptionSet, Sendable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }
  public static let real = AliasKinds(rawValue: 1)
  public static let display = AliasKinds(rawValue: 2)

  /// Whether a change through one name leaves a stale dentry of the other.
  var areSeveral: Bool { self == [.real, .display] }
}
