import BackingTree
import CLinux
import FuseServer
import Glibc

/// Runs the mount in the background. The foreground process ends once the mount is ready or has failed.
enum Daemon {
  /// Returns in the foreground process only.
  ///
  /// - Parameter failed: called in the background process after its error was printed, and before it ends.
  static func run(
    _ body: @escaping (@escaping @Sendable () -> Void) throws(Failure) -> Void,
    failed: @escaping (Failure) -> Void
  ) throws(Failure) {
    var ends: [CInt] = [0, 0]
    guard pipe(&ends) == 0 else {
      throw Failure(.system, "cannot create a pipe: \(String(cString: strerror(errno)))")
    }
    let (reading, writing) = (ends[0], ends[1])
    // The process has only one thread at this point, so the child is complete.
    switch dfs_fork() {
    case -1: throw Failure(.system, "cannot create a process: \(String(cString: strerror(errno)))")
    case 0:
      close(reading)
      chdir("/")
      try endWith { () throws(Failure) in
        try body {
          // Not earlier: while a mount point is being mounted, automount(8) lets only its own process group reach it.
          setsid()
          // Output goes to /dev/null from here on; messages go to the log.
          let null = open("/dev/null", O_RDWR)
          for standard in 0...2 { dup2(null, CInt(standard)) }
          if null > 2 { close(null) }
          var ready: UInt8 = 1
          write(writing, &ready, 1)
          close(writing)
        }
      } failed: {
        failed($0)
      }
    case let child:
      close(writing)
      var ready: UInt8 = 0
      var count = read(reading, &ready, 1)
      while count < 0 && errno == EINTR { count = read(reading, &ready, 1) }
      if count == 1 { return }
      var status: CInt = 0
      waitpid(child, &status, 0)
      // The child has printed the error.
      exit(status & 0x7f == 0 && status >> 8 != 0 ? status >> 8 : ExitStatus.mount.rawValue)
    }
  }

  /// Runs the rest of the process in a new thread, and ends the process.
  ///
  /// Swift's runtime marks its locks with the ID of the thread that holds them, and each thread caches its own ID. After a fork,
  /// the first thread continues with the cached ID of its parent. The kernel then finds no owner that another thread could wait
  /// for, nor lets this thread unlock, and both retry for ever. So the first thread only makes system calls and starts a new
  /// thread, which does everything else.
  private static func endWith(
    _ body: @escaping () throws(Failure) -> Void, failed: @escaping (Failure) -> Void
  ) throws(Failure) -> Never {
    var all = sigset_t()
    var before = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_BLOCK, &all, &before)
    DescriptorLimit.raise()
    nonisolated(unsafe) let (body, failed) = (body, failed)
    let working = Thread { [before] in
      var usual = before
      pthread_sigmask(SIG_SETMASK, &usual, nil)
      do throws(Failure) { try body() } catch {
        Main.report(error)
        failed(error)
        exit(error.code.rawValue)
      }
      exit(ExitStatus.success.rawValue)
    }
    guard working != nil else {
      throw Failure(.system, "cannot create a thread: \(Program.limitReached)")
    }
    while true { pause() }
  }
}
