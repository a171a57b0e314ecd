/// The kinds of names that lead to an entry: it has a real name, and a display name where that is another one.
///
/// The kernel may hold a dentry for each. A change through one of them reaches the kernel's dentry of that name by itself; the
/// other one has to be invalidated.
public struct AliasKinds: OptionSet, Sendable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }
  public static let real = AliasKinds(rawValue: 1)
  public static let display = AliasKinds(rawValue: 2)

  /// Whether a change through one name leaves another one behind.
  var areSeveral: Bool { self == [.real, .display] }
}
