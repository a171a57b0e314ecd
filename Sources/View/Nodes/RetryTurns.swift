import BackingTree
import Synchronization

import typealias Glibc.pid_t

/// A replayed rename that is under way, for as long as there is a reference to it.
package final class ReplayedRename: Sendable {
  private let file: FileIdentity
  private let turns: RetryTurns

  fileprivate init(of file: FileIdentity, _ turns: RetryTurns) {
    self.file = file
    self.turns = turns
  }

  deinit { turns.endRename(of: file) }
}

/// Keeps replayed renames of a file and clients that walk a path to it again apart.
///
/// On ESTALE the kernel walks the path again, once; a client that is refused twice gets the error. So a refusal waits until the
/// rename of the file that is under way is over, and the next one is not replayed before the refused client has been served.
/// Both waits are bounded. The file counts, not its node: the kernel may forget that in between.
final class RetryTurns: Sendable {
  private struct Retry {
    /// Several where a request with two paths was refused.
    let files: Set<FileIdentity>
    let time = ContinuousClock.now

    /// The kernel may take that long to walk the path again, on a busy machine.
    var isExpected: Bool { ContinuousClock.now - time < .milliseconds(500) }
  }

  private static let limit = 256
  /// The daemon has replied to the rename, and the kernel waits for nothing else.
  private static let millisecondsOfRename = 100

  /// One lock for both: a refusal either is seen by the rename that is about to begin, or waits for its end. Only a rename that
  /// has given way for too long begins in spite of a refusal.
  private struct State {
    var retries: [pid_t: Retry] = [:]
    /// The files with replayed renames that the kernel has not finished: how many, as each hard link may have one, and the
    /// refusals that wait for their ends.
    var renames: [FileIdentity: (count: Int, waiters: [BackingTree.Semaphore])] = [:]

    mutating func removeUnexpected() { retries = retries.filter { $0.value.isExpected } }
  }

  private let state = Guarded(State())
  /// Whether there are retries. Nearly every request passes here, and there is almost never an entry.
  private let isNotEmpty = Atomic<Bool>(false)

  /// Whether a thread that got ESTALE may be about to try again.
  var isAnyAwaited: Bool { isNotEmpty.load(ordering: .acquiring) }

  /// Called before the kernel gets the reply to a replayed rename.
  ///
  /// - Parameter yields: whether the rename gives way to a thread that got ESTALE for the file and is about to try again.
  /// - Returns: the rename, to be released when the system call has returned; nil when it gives way.
  func beginRename(of file: FileIdentity, yields: Bool) -> ReplayedRename? {
    let begins = state.withLock { state in
      if yields, state.retries.values.contains(where: { $0.files.contains(file) && $0.isExpected }) {
        return false
      }
      state.renames[file, default: (0, [])].count += 1
      return true
    }
    return begins ? ReplayedRename(of: file, self) : nil
  }

  fileprivate func endRename(of file: FileIdentity) {
    let waiters = state.withLock { state -> [BackingTree.Semaphore] in
      state.renames[file]!.count -= 1
      return state.renames[file]!.count == 0 ? state.renames.removeValue(forKey: file)!.waiters : []
    }
    for waiter in waiters { waiter.post() }
  }

  /// Records that a thread gets ESTALE for some files, and waits until no rename of them is under way: the kernel could walk the
  /// path again before it has renamed the dentry.
  ///
  /// - Returns: false where a rename was still under way after 100 ms.
  func noteRefusal(of files: Set<FileIdentity>, by thread: pid_t) -> Bool {
    let ends = state.withLock { state -> [BackingTree.Semaphore] in
      if state.retries.count >= Self.limit { state.removeUnexpected() }
      if state.retries.count < Self.limit { state.retries[thread] = Retry(files: files) }
      isNotEmpty.store(true, ordering: .releasing)
      return files.filter { state.renames[$0] != nil }.map { file in
        let end = BackingTree.Semaphore()
        state.renames[file]!.waiters.append(end)
        return end
      }
    }
    let deadline = ContinuousClock.now + .milliseconds(Self.millisecondsOfRename)
    for end in ends {
      let left = (deadline - .now) / .milliseconds(1)
      if !end.wait(milliseconds: max(0, Int(left))) { return false }
    }
    return true
  }

  /// Records that a request of a thread is served.
  func noteService(of thread: pid_t) {
    guard isAnyAwaited else { return }
    state.withLock { state in
      state.retries[thread] = nil
      // A client that gives up sends no further request.
      state.removeUnexpected()
      if state.retries.isEmpty { isNotEmpty.store(false, ordering: .releasing) }
    }
  }
}
