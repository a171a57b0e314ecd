import CLinux
import Glibc
import SystemPackage
import Testing

/// Locks that one process takes and another one meets, kept by the kernel (`locks=local`) and in the backing tree
/// (`locks=backing`).
@Suite(.mounting) struct LockTests {
  private static let places = ["local", "backing"]

  private func view(_ place: String) throws -> MountedView {
    try MountedView("locks=\(place)") { root in try put("0123456789", at: "\(root)/notes.txt") }
  }

  /// Whether another process gets the lock at once, by the display name through the mount, and in the backing tree.
  private func others(_ view: MountedView, _ call: String) -> [Bool] {
    [view.at("notes"), view.at("notes.txt"), view.real("notes.txt")].map { path in
      let script = """
        python3 -c 'import fcntl, sys
        f = open(sys.argv[1], "r+")
        try: fcntl.\(call)
        except OSError: sys.exit(1)' '\(path)'
        """
      return Shell.run(script).status == 0
    }
  }

  @Test(arguments: places) func flock_conflictsWithOtherProcesses(place: String) throws {
    let view = try view(place)
    let file = try OpenFile(view.at("notes"), O_RDWR)
    let exclusive = "flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    #expect(failure { dfs_flock(file.descriptor, LOCK_EX | LOCK_NB) } == nil)
    #expect(others(view, exclusive) == [false, false, place == "local"])
    #expect(failure { dfs_flock(file.descriptor, LOCK_SH | LOCK_NB) } == nil)
    #expect(others(view, "flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)") == [true, true, true])
    #expect(others(view, exclusive) == [false, false, place == "local"])
    #expect(failure { dfs_flock(file.descriptor, LOCK_UN) } == nil)
    #expect(others(view, exclusive) == [true, true, true])
  }

  @Test(arguments: places) func flock_afterItsNameIsRemoved_conflictsThroughOtherName(place: String) throws {
    let view = try view(place)
    #expect(link(view.real("notes.txt"), view.real("other.txt")) == 0)
    #expect(eventually { isThere(view.at("other")) })
    let file = try OpenFile(view.at("other"), O_RDWR)
    #expect(failure { dfs_flock(file.descriptor, LOCK_EX | LOCK_NB) } == nil)
    #expect(unlink(view.real("other.txt")) == 0)
    #expect(eventually { !isThere(view.at("other")) })
    // The lock is held both before and after the kernel has been notified of all changes of the name.
    for marker in ["first", "second"] {
      #expect(others(view, "flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)") == [false, false, place == "local"])
      try put("", at: view.real(marker))
      #expect(eventually { isThere(view.at(marker)) })
    }
  }

  @Test(arguments: places) func flock_ofTwoDescriptorsInOneProcess_conflicts(place: String) throws {
    let view = try view(place)
    let first = try OpenFile(view.at("notes"), O_RDWR)
    let second = try OpenFile(view.at("notes.txt"), O_RDWR)
    #expect(failure { dfs_flock(first.descriptor, LOCK_EX | LOCK_NB) } == nil)
    #expect(failure { dfs_flock(second.descriptor, LOCK_EX | LOCK_NB) } == .wouldBlock)
  }

  @Test(arguments: places) func flock_afterClose_isReleased(place: String) throws {
    let view = try view(place)
    do {
      let file = try OpenFile(view.at("notes"), O_RDWR)
      #expect(failure { dfs_flock(file.descriptor, LOCK_EX | LOCK_NB) } == nil)
    }
    #expect(others(view, "flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)") == [true, true, true])
  }

  @Test(arguments: places) func recordLock_conflictsWithOtherProcesses(place: String) throws {
    let view = try view(place)
    let file = try OpenFile(view.at("notes"), O_RDWR)
    var range = flock(l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: 0, l_len: 5, l_pid: 0)
    #expect(failure { fcntl(file.descriptor, F_SETLK, &range) } == nil)
    #expect(
      others(view, "lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 0)") == [false, false, place == "local"])
    #expect(others(view, "lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 5)") == [true, true, true])
    range.l_type = Int16(F_UNLCK)
    #expect(failure { fcntl(file.descriptor, F_SETLK, &range) } == nil)
    #expect(others(view, "lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 0)") == [true, true, true])
  }

  @Test(arguments: places) func openFileDescriptionLocks_conflictWithinProcess(place: String) throws {
    let setLock: CInt = 37  // F_OFD_SETLK
    let view = try view(place)
    let first = try OpenFile(view.at("notes"), O_RDWR)
    let second = try OpenFile(view.at("notes"), O_RDWR)
    var range = flock(l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: 0, l_len: 5, l_pid: 0)
    #expect(failure { dfs_ofd_lock(first.descriptor, setLock, &range) } == nil)
    #expect(failure { dfs_ofd_lock(second.descriptor, setLock, &range) } == .resourceTemporarilyUnavailable)
    #expect(
      others(view, "lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 0)") == [false, false, place == "local"])
    range.l_start = 5
    #expect(failure { dfs_ofd_lock(second.descriptor, setLock, &range) } == nil)
  }

  @Test(arguments: places) func waitingFlock_isGrantedOnRelease(place: String) throws {
    let view = try view(place)
    let script = """
      (flock 9; sleep 0.3; echo first >>order) 9>>lock & sleep 0.1; (flock 9; echo second >>order) 9>>lock; wait; cat order
      """
    #expect(view.shell(script).text == "first\nsecond")
  }
}
