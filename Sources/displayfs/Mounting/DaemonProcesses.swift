import BackingTree
import Glibc

/// The processes that serve a mount, as far as this user may see them.
struct DaemonProcesses {
  private let processes: [pid_t]

  /// Searches /proc without a request to the mount. Finds no process where the kernel does not show which process has a
  /// connection (`fuse_connection` in /proc/PID/fdinfo).
  init(of mount: MountTable.Line) {
    processes = Self.candidates.filter { ProcessTable.hasOpen(Self.mark(of: mount), "\($0.process)") }.map(
      \.process)
  }

  /// Whether a daemon of the mount was killed but cannot end: one of its threads waits in the kernel, perhaps for a client that
  /// waits for the daemon. Its guardian would have ended the connection, and was killed as well.
  static func isOneKilled(of mount: MountTable.Line) -> Bool {
    candidates.contains { process, state in
      // The first thread has ended, and the files of the process can be seen by way of the others only.
      state == "Z"
        && ProcessTable.threads(of: process).contains {
          ProcessTable.hasOpen(mark(of: mount), "\(process)/task/\($0)")
        }
    }
  }

  /// Processes with the name of the program or of a helper of mount(8): to read the files of all processes takes long.
  private static var candidates: [(process: pid_t, state: Character)] {
    ProcessTable.all.compactMap { process in
      guard process != getpid(), let (name, state) = ProcessTable.nameAndState(of: process),
        name.hasPrefix("displayfs") || name.hasPrefix("mount.")
      else { return nil }
      return (process, state)
    }
  }

  private static func mark(of mount: MountTable.Line) -> [UInt8] {
    Array("fuse_connection:\t\(mount.device)\n".utf8)
  }

  func contain(_ process: pid_t) -> Bool { processes.contains(process) }

  /// Waits until the processes have ended, and thus closed their files in the backing tree.
  ///
  /// - Parameter milliseconds: the longest time to wait.
  func waitUntilEnded(milliseconds: Int) {
    for _ in 0..<milliseconds / 5 where processes.contains(where: isRunning) { usleep(5000) }
  }

  private func isRunning(_ process: pid_t) -> Bool {
    guard let (_, state) = ProcessTable.nameAndState(of: process) else { return false }
    switch state {
    // A zombie may not have been reaped by its parent yet, or its first thread may have ended before the other threads.
    case "Z", "X": return ProcessTable.threads(of: process).count > 1
    // A stopped process may never end, so do not wait for it.
    case "T", "t": return false
    default: return true
    }
  }
}
