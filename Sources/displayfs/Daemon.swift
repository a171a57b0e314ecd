import BackingTree
import CFuse
import FuseServer
import Glibc

/// Runs the mount in the background. The foreground process ends when the mount answers, or when it failed.
enum Daemon {
  /// Returns in the foreground process only.
  ///
  /// - Parameter failed: called in the foreground process when the one in the background has ended without the mount ever
  ///   having answered.
  static func run(
    _ body: @escaping (@escaping @Sendable () -> Void) throws(Failure) -> Void, failed: () -> Void
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
      try endWith { () throws(Failure) in
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

  /// Does all that is left to do, and ends the process.
  ///
  /// Swift's runtime marks its locks with the number of the thread that took them, and each thread remembers its own: after a
  /// fork the first thread goes on with that of its parent's. The kernel then finds no owner whom another thread could wait
  /// for, nor lets this one unlock, and both try for ever. So the first thread does nothing, and a new one everything.
  private static func endWith(_ body: @escaping () throws(Failure) -> Void) throws(Failure) -> Never {
    var all = sigset_t()
    var before = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_BLOCK, &all, &before)
    nonisolated(unsafe) let body = body
    let working = Thread { [before] in
      var usual = before
      pthread_sigmask(SIG_SETMASK, &usual, nil)
      do throws(Failure) { try body() } catch { Main.end(with: error) }
      exit(ExitStatus.success.rawValue)
    }
    guard working != nil else {
      throw Failure(.system, "no thread can be made: raise the limit of processes (ulimit -u)")
    }
    while true { pause() }
  }
}
