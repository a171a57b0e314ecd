import BackingTree
import Synchronization

import typealias Glibc.pid_t

/// Keeps replayed renames of a file and clients that walk a path to it again apart.
///
/// On ESTALE the kernel walks the path again, once; a client that is refused twice gets the error. So a refusal waits until the
/// rename of the file that is under way is over, and the next one is not replayed before the refused client has been served.
/// Both waits are bounded. The file counts, not its node: the kernel may forget that in between.
final class RetryTurns: Sendable {
  private struct Retry {
    let file: FileIdentity
    let time = ContinuousClock.now

    /// The kernel may take that long to walk the path again, on a busy machine.
    var isExpected: Bool { ContinuousClock.now - time < .milliseconds(500) }
  }

  private static let limit = 256
  /// The daemon has replied to the rename, and the kernel waits for nothing else.
  private static let millisecondsOfRename = 100

  private let retries = Guarded<[pid_t: Retry]>([:])
  /// Nearly every request passes here, and there is almost never an entry.
  private let isNotEmpty = Atomic<Bool>(false)
  /// The replayed renames that the kernel has not finished, with the refusals that wait for their ends.
  private let renames = Guarded<[FileIdentity: [BackingTree.Semaphore]]>([:])

  /// Called before the kernel gets the reply to a replayed rename.
  func beginRename(of file: FileIdentity) { renames.withLock { $0[file] = $0[file] ?? [] } }

  /// Called when the system call has returned.
  func endRename(of file: FileIdentity) {
    for end in renames.withLock({ $0.removeValue(forKey: file) }) ?? [] { end.post() }
  }

  /// Records that a thread gets ESTALE for a file, and waits until no rename of the file is under way: the kernel could walk the
  /// path again before it has renamed the dentry.
  func noteRefusal(of file: FileIdentity, by thread: pid_t) {
    retries.withLock { retries in
      if retries.count >= Self.limit { retries = retries.filter { $0.value.isExpected } }
      if retries.count < Self.limit { retries[thread] = Retry(file: file) }
      isNotEmpty.store(true, ordering: .releasing)
    }
    let end = renames.withLock { renames -> BackingTree.Semaphore? in
      guard renames[file] != nil else { return nil }
      let end = BackingTree.Semaphore()
      renames[file]!.append(end)
      return end
    }
    end?.wait(milliseconds: Self.millisecondsOfRename)
  }

  /// Records that a request of a thread is served.
  func noteService(of thread: pid_t) {
    guard isNotEmpty.load(ordering: .acquiring) else { return }
    retries.withLock { retries in
      retries[thread] = nil
      if retries.isEmpty { isNotEmpty.store(false, ordering: .releasing) }
    }
  }

  /// Whether a thread that got ESTALE for the file is about to repeat its request.
  func isAwaited(_ file: FileIdentity) -> Bool {
    retries.withLock { $0.values.contains { $0.file == file && $0.isExpected } }
  }
}
