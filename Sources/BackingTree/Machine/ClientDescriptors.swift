import Glibc
import Synchronization
import SystemPackage

/// Accounts for the descriptors that the daemon keeps open on behalf of clients, per user.
///
/// On a mount shared by several users, a user's share is limited to a multiple of what is left, so that descriptors always remain
/// for another user.
public final class ClientDescriptors: Sendable {
  /// Open files, directories and packages: all descriptors but those reserved by `DescriptorLimit`. One user may have two thirds.
  public static let opened = ClientDescriptors(limit: DescriptorLimit.forClients, multiple: 2)
  /// A reserve for open directories, used when a user has none of `opened` left, so that the user can still list and remove. One
  /// user may have half.
  public static let forListing = ClientDescriptors(limit: DescriptorLimit.reservedForListing, multiple: 1)

  private struct State {
    var reserved = 0
    /// Those of each user, where they are limited.
    var users: [NumberKey: Int] = [:]
  }

  private let limit: Int
  private let multiple: Int
  private let state = Guarded(State())
  private static let isLimitedPerUser = Atomic<Bool>(false)

  init(limit: Int, multiple: Int) {
    self.limit = limit
    self.multiple = multiple
  }

  /// Enables the limit per user: more than one user can reach the mount. Call before any descriptor is reserved.
  public static func limitPerUser() { isLimitedPerUser.store(true, ordering: .relaxed) }

  public static var areLimitedPerUser: Bool { isLimitedPerUser.load(ordering: .relaxed) }

  /// Reserves descriptors that are about to be opened for a client of a user.
  ///
  /// - Throws: ENFILE when the user has its share. Not EMFILE, which would say that the client has reached its own limit.
  public func reserve(_ count: Int, for user: uid_t) throws(Errno) {
    let isReserved = state.withLock { state in
      let left = limit - state.reserved - count
      if left < 0 { return false }
      if Self.areLimitedPerUser {
        let own = (state.users[NumberKey(user)] ?? 0) + count
        if !allows(own: own, left: left) { return false }
        state.users[NumberKey(user)] = own
      }
      state.reserved += count
      return true
    }
    guard isReserved else { throw .tooManyOpenFilesInSystem }
  }

  /// Returns descriptors that were closed, or that were reserved and not opened.
  public func release(_ count: Int, of user: uid_t) {
    state.withLock { state in
      state.reserved -= count
      guard let own = state.users[NumberKey(user)] else { return }
      state.users[NumberKey(user)] = own > count ? own - count : nil
    }
  }

  /// Whether a user may have `own` descriptors while `left` remain for all users.
  func allows(own: Int, left: Int) -> Bool { own <= multiple * left }
}
