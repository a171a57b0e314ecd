import Glibc
import Synchronization
import SystemPackage

/// Descriptors that the daemon keeps open on behalf of clients, with an account for each user.
///
/// On a mount that several users share, no user gets more than a multiple of what is left, so that another always gets some.
public final class ClientDescriptors: Sendable {
  /// Files, directories and packages: all but the last descriptors, which `DescriptorLimit` keeps. A user gets two thirds.
  public static let opened = ClientDescriptors(limit: DescriptorLimit.forClients, multiple: 2)
  /// Directories while there are no others: so that a user without any of those left can list, and remove. A user gets a half.
  public static let listed = ClientDescriptors(limit: DescriptorLimit.keptForListing, multiple: 1)

  private struct State {
    var given = 0
    var users: [uid_t: Int] = [:]
  }

  private let limit: Int
  private let multiple: Int
  private let state = Guarded(State())
  private static let isShared = Atomic<Bool>(false)

  init(limit: Int, multiple: Int) {
    self.limit = limit
    self.multiple = multiple
  }

  /// Other users than one can reach the mount.
  public static func share() { isShared.store(true, ordering: .relaxed) }

  /// Counts descriptors that are about to be opened for a user's client.
  ///
  /// - Throws: ENFILE when the user has its share: the client has not used up a limit of its own, as EMFILE would say.
  public func take(_ count: Int, for user: uid_t) throws(Errno) {
    let isTaken = state.withLock { state in
      let own = (state.users[user] ?? 0) + count
      let left = limit - state.given - count
      guard left >= 0, !Self.isShared.load(ordering: .relaxed) || allows(own: own, left: left) else {
        return false
      }
      state.given += count
      state.users[user] = own
      return true
    }
    guard isTaken else { throw .tooManyOpenFilesInSystem }
  }

  /// They are closed, or were not opened.
  public func giveBack(_ count: Int, of user: uid_t) {
    state.withLock { state in
      state.given -= count
      let own = (state.users[user] ?? 0) - count
      state.users[user] = own > 0 ? own : nil
    }
  }

  /// Whether a user may have so many while so many are left for all.
  func allows(own: Int, left: Int) -> Bool { own <= multiple * left }
}
