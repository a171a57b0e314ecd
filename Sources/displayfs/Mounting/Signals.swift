import BackingTree
import FuseServer
import Glibc
import Logging
import SystemPackage

/// Handles the signals of a mount. They are blocked in every thread and one thread fetches them, so that the code is not
/// restricted to what a signal handler may do.
///
/// INT and TERM unmount. If requests do not end within four seconds, or at a second signal, the mount is detached and the process
/// ends at once: a service manager sends one signal, and kills what is left after its own timeout. HUP reloads the configuration,
/// USR1 logs the statistics, USR2 changes the log level.
struct Signals: Sendable {
  /// The signals that the user has not set to be ignored, as nohup(1) does.
  private static let handled: [CInt] = [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2].filter { signal in
    var action = sigaction()
    sigaction(signal, nil, &action)
    return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
      != unsafeBitCast(SIG_IGN, to: Int.self)
  }

  let server: Server
  let mountPoint: FilePath
  let logger: Logger

  /// Called before the first thread is created, because threads inherit the signal mask.
  static func block() {
    var set = set
    pthread_sigmask(SIG_BLOCK, &set, nil)
  }

  private static var set: sigset_t {
    var set = sigset_t()
    sigemptyset(&set)
    for signal in handled { sigaddset(&set, signal) }
    return set
  }

  /// Fetches signals until the process ends.
  func serve() {
    Thread {
      while true {
        var set = Self.set
        var signal: CInt = 0
        guard sigwait(&set, &signal) == 0 else { return }
        switch signal {
        case SIGHUP:
          ServiceManager.reloading()
          server.reload()
          ServiceManager.reloaded()
        case SIGUSR1: for line in server.statistics.split(separator: "\n") { logger.notice("\(line)") }
        case SIGUSR2: LogLevel.cycle(logger)
        default: stop()
        }
      }
    }?.detach()
  }

  /// How long requests in progress may take, in seconds. Data that they write is written all the same; their clients get an
  /// error.
  private static let stopTimeout: UInt32 = 4

  private func stop() {
    if server.stop() {
      Thread {
        sleep(Self.stopTimeout)
        detachAndExit("requests did not end within \(Self.stopTimeout) seconds")
      }?.detach()
    } else {
      detachAndExit("a second signal to stop was received")
    }
  }

  private func detachAndExit(_ reason: String) {
    logger.notice("\(reason): \(mountPoint) is detached, and requests under way are abandoned")
    if let mount = server.mount?.present {
      do throws(Failure) {
        try Unmount.perform(mount, .lazy) { server.isConnected }
      } catch { logger.notice("\(error)") }
    }
    server.waitForUnmount()
    LogWriter.flush()
    _exit(ExitStatus.success.rawValue)
  }
}
