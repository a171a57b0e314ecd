import BackingTree
import Glibc

/// The processes that serve a mount, as far as this user may know.
struct Servers {
  private let processes: [pid_t]

  /// Looks through the processes without asking the mount; finds none where the kernel does not tell who has a connection.
  /// (`fuse_connection` in /proc/PID/fdinfo)
  init(of mount: MountTable.Line) {
    let mark = Array("fuse_connection:\t\(mount.device)\n".utf8)
    processes = ProcessTable.all.filter { process in
      guard process != getpid(), let (name, _) = ProcessTable.nameAndState(of: process) else { return false }
      // By the name of the program or of a helper of mount(8): to look at the files of all processes takes long.
      return (name.hasPrefix("displayfs") || name.hasPrefix("mount.")) && ProcessTable.hasOpen(mark, process)
    }
  }

  /// Until they have ended, and let go of what they had open in the backing tree.
  ///
  /// - Parameter milliseconds: at most so many.
  func waitUntilEnded(milliseconds: Int) {
    for _ in 0..<milliseconds / 5 where processes.contains(where: isRunning) { usleep(5000) }
  }

  private func isRunning(_ process: pid_t) -> Bool {
    guard let (_, state) = ProcessTable.nameAndState(of: process) else { return false }
    switch state {
    // Whoever started it may not have looked yet; of its threads the first may end before others.
    case "Z", "X": return ProcessTable.threads(of: process).count > 1
    // Who is stopped would have to be waited for.
    case "T", "t": return false
    default: return true
    }
  }
}
