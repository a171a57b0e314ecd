import CLinux
import Glibc
import SystemPackage
import Testing

@testable import BackingTree

@Suite struct CallerTests {
  private static let kernelThread: pid_t? = (3..<200).first { dfs_is_kernel_thread($0) }

  @Test(.enabled(if: kernelThread != nil, "No thread of the kernel is visible here."))
  func threadGroup_ofThreadOfTheKernel_isUnknown() throws {
    let thread = try #require(Self.kernelThread)
    #expect(Client(user: 0, group: 0, thread: thread, umask: 0).threadGroup == 0)
    #expect(Client(user: 0, group: 0, thread: getpid(), umask: 0).threadGroup == getpid())
  }

  @Test func threadGroup_ofAnyThreadOfProcess_isProcess() throws {
    let found = Guarded<[pid_t]>([])
    let thread = Thread {
      let own = Thread.current
      let groups = [own, getpid()].map { Client(user: 0, group: 0, thread: $0, umask: 0).threadGroup }
      let areFirst = [own, getpid()].map { dfs_is_first_thread($0) ? pid_t(1) : 0 }
      found.withLock { $0 = groups + areFirst }
    }
    try #require(thread).join()
    #expect(found.withLock { $0 } == [getpid(), getpid(), 0, 1])
    #expect(Client(user: 0, group: 0, thread: 0, umask: 0).threadGroup == 0)
  }

  /// The daemon may have a request before its client sleeps.
  @Test func call_ofClientThatRunsForAMoment_isReadOnceItSleeps() throws {
    let temporary = try TemporaryDirectory()
    let pipe = temporary.path + "/pipe"
    try #require(mkfifo(pipe, 0o600) == 0)
    let hasBegun = Semaphore()
    let id = Guarded<pid_t>(0)
    let thread = Thread {
      id.withLock { $0 = Thread.current }
      hasBegun.post()
      let begin = ContinuousClock.now
      while ContinuousClock.now - begin < .milliseconds(20) {}
      // Sleeps until the pipe is opened for writing.
      close(open(pipe, O_RDONLY))
    }
    try #require(thread != nil)
    thread?.detach()
    hasBegun.wait()
    #expect(!dfs_may_hold_directory_lock(id.withLock { $0 }))
    close(open(pipe, O_WRONLY))
  }

  /// A new thread inherits the capabilities that its creator has at that moment.
  @Test(.enabled(if: geteuid() == 0)) func chmod_byThreadCreatedWithoutSetIDCapability_keepsSetGroupIDBit() throws {
    let temporary = try TemporaryDirectory()
    let path = temporary.path + "/tool"
    close(open(path, O_WRONLY | O_CREAT, 0o600))
    #expect(chown(path, 65534, 65534) == 0)
    let done = Semaphore()
    let mode = Guarded<mode_t>(0)
    // Runs in a thread of its own, because it drops a capability.
    let first = Thread {
      try? Client.daemon.impersonate(setID: DFS_SETID_DROPPED) { () throws(Errno) in }
      let second = Thread {
        _ = try? Client.daemon.impersonateWithGroups { () throws(Errno) in
          try systemCall { chmod(path, 0o2755) }
        }
        var found = stat()
        stat(path, &found)
        mode.withLock { $0 = found.st_mode & 0o7777 }
        done.post()
      }
      second?.detach()
    }
    try #require(first != nil)
    first?.detach()
    done.wait(milliseconds: 30_000)
    #expect(mode.withLock { $0 } == 0o2755)
  }
}
