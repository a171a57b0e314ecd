import Glibc
import Testing

/// Hostile users of a view that root has mounted for all: each pattern of `Mount/attack` for two seconds.
@Suite(.mounting, .asRoot, .serialized) struct AttackTests {
  static let patterns = [
    "locks", "descriptors", "deep", "sparse", "packages", "lower", "names", "rights", "signals", "stops",
  ]

  /// A wait of the second user counts when it is far beyond what a busy machine costs in a plain directory.
  @Test(.needing("python3", "unshare", "setpriv"), arguments: patterns)
  func hostileUser_exceedsNoRightAndDelaysNoOtherUser(_ pattern: String) {
    let outcome = Shell.run(
      ["\(repository)/Mount/attack", "--short", "--bar", "1000", "--pattern", pattern],
      with: ["DISPLAYFS_BINARY": Displayfs.path])
    #expect(outcome.status == 0, "\(outcome.text)\n\(outcome.errorText)")
  }
}
