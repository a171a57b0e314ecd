import CFuse
import Glibc

/// Runs the mount in the background. The foreground process ends when the mount answers, or when it failed.
enum Daemon {
  /// - Parameter failed: called in the foreground process when the one in the background has ended without the mount ever
  ///   having answered.
  static func run(
    _ body: (@escaping @Sendable () -> Void) throws(Failure) -> Void, failed: () -> Void
  ) throws(Failure) {
    var ends: [CInt] = [0, 0]
    guard pipe(&ends) == 0 else {
      throw Failure(.system, "no pipe can be made: \(String(cString: strerror(errno)))")
    }
    let (reading, writing) = (ends[0], ends[1])
    // Nothing has started a thread yet, so the child is a whole process.
    switch dfs_fork() {
    case -1: throw Failure(.system, "no process can be made: \(String(cString: strerror(errno)))")
    case 0:
      close(reading)
      chdir("/")
      try body {
        // Not before: automount(8) lets nobody but its own group of processes reach a mount point that is being mounted.
        setsid()
        // From here on nobody reads what we print; what is worth telling goes to the log.
        let null = open("/dev/null", O_RDWR)
        for standard in 0...2 { dup2(null, CInt(standard)) }
        if null > 2 { close(null) }
        var ready: UInt8 = 1
        write(writing, &ready, 1)
        close(writing)
      }
    case let child:
      close(writing)
      var ready: UInt8 = 0
      var count = read(reading, &ready, 1)
      while count < 0 && errno == EINTR { count = read(reading, &ready, 1) }
      if count == 1 { return }
      var status: CInt = 0
      waitpid(child, &status, 0)
      failed()
      // The child has said what was wrong.
      exit(status & 0x7f == 0 && status >> 8 != 0 ? status >> 8 : ExitStatus.mount.rawValue)
    }
  }
}
