/// Kinds of name: an entry has a real one, and a display name where that is another.
public struct GivenNames: OptionSet, Sendable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }
  public static let real = GivenNames(rawValue: 1)
  public static let display = GivenNames(rawValue: 2)

  /// Whether one name is not all.
  var areSeveral: Bool { self == [.real, .display] }
}

/// By what kinds of name the kernel may know a node. It believes in a name until it is told to forget it; whoever changes the
/// file by another name would be seen to have changed nothing.
struct NamesKnown {
  /// Those that it was told and may believe in.
  private(set) var given: GivenNames
  /// Whether there have ever been several.
  private(set) var wereSeveral = false
  /// Those that it is being told to forget.
  private var takenBack: GivenNames = []
  /// Those of them that it was told again meanwhile, before or after it forgot them.
  private var givenAgain: GivenNames = []

  init(_ name: GivenNames) { given = name }

  mutating func give(_ name: GivenNames) { set(given.union(name), name) }

  /// The kernel knows it by no other.
  mutating func giveOnly(_ name: GivenNames) { set(name, name) }

  private mutating func set(_ names: GivenNames, _ name: GivenNames) {
    given = names
    if takenBack.contains(name) { givenAgain.insert(name) }
    if given.areSeveral { wereSeveral = true }
  }

  /// The kernel is about to be told to forget one of two.
  ///
  /// - Returns: false when it is being told already, or need not be.
  mutating func startTakingBack(_ name: GivenNames) -> Bool {
    guard given.areSeveral else { return false }
    return takenBack.insert(name).inserted
  }

  /// It has been told.
  mutating func tookBack(_ name: GivenNames) {
    guard takenBack.remove(name) != nil else { return }
    if givenAgain.remove(name) == nil { given.remove(name) }
  }
}
