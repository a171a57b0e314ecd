import BackingTree
import CLinux
import Glibc
import Logging
import Synchronization

/// The log level of the whole process.
enum LogLevel {
  private static let levels: [Logger.Level] = [.info, .debug, .trace, .warning]
  private static let index = Atomic(0)

  static var current: Logger.Level { levels[index.load(ordering: .relaxed)] }

  /// Switches to the next level: from the usual level to the more verbose levels, then to a less verbose one.
  static func cycle(_ logger: Logger) {
    let next = (index.load(ordering: .relaxed) + 1) % levels.count
    index.store(next, ordering: .relaxed)
    logger.log(level: levels[next], "messages of level \(levels[next]) and above are logged from now on")
  }
}

/// Writes the log, on a thread of its own.
///
/// The destination of the log may have stopped: the journal, a terminal, the file system of a file. Writing blocks then, and
/// neither a worker nor the signal thread may wait for it. So messages are queued. Messages that find the queue full are dropped
/// and counted.
final class LogWriter: Sendable {
  typealias Message = @Sendable () -> Void

  private struct Queue {
    var messages: [Message] = []
    var dropped = 0
    /// Reports the number of dropped messages to the log that they were meant for.
    var report: (@Sendable (Int) -> Void)?
    /// Whether messages are queued, or taken from the queue and not yet written.
    var isBusy = false
  }

  private static let bound = 256
  /// How long a process that ends waits for the queued messages.
  private static let flushTimeout = Duration.milliseconds(500)
  private static let hasStarted = Atomic(false)
  private static let shared = LogWriter()

  private let queue = Guarded(Queue())
  private let wake = Semaphore()

  /// Queues a message. It may be dropped.
  ///
  /// - Parameters:
  ///   - message: writes the message. May block.
  ///   - report: writes how many earlier messages were dropped.
  static func add(_ message: @escaping Message, report: @escaping @Sendable (Int) -> Void) {
    shared.add(message, report: report)
  }

  /// Waits until all messages are written, but not for a log that has stopped. Must be called before the process ends.
  static func flush() {
    guard hasStarted.load(ordering: .acquiring) else { return }
    let deadline = ContinuousClock.now + flushTimeout
    while shared.queue.withLock({ $0.isBusy }), ContinuousClock.now < deadline { usleep(1000) }
  }

  private init() {
    Self.hasStarted.store(true, ordering: .releasing)
    atexit { LogWriter.flush() }
    // If the thread cannot be started, nothing is logged.
    Thread { [self] in run() }?.detach()
  }

  private func add(_ message: @escaping Message, report: @escaping @Sendable (Int) -> Void) {
    queue.withLock { queue in
      if queue.messages.count < Self.bound {
        queue.messages.append(message)
      } else {
        queue.dropped += 1
        queue.report = report
      }
      queue.isBusy = true
    }
    wake.post()
  }

  private func run() {
    while true {
      wake.wait()
      let taken = queue.withLock { queue in
        defer { queue = Queue(isBusy: !queue.messages.isEmpty) }
        return queue
      }
      for message in taken.messages { message() }
      if taken.dropped > 0 { taken.report?(taken.dropped) }
      queue.withLock { $0.isBusy = !$0.messages.isEmpty }
    }
  }
}

/// The log in the foreground: one line for each message on standard error.
struct StandardErrorLog: QueuedLog {
  var metadata: Logger.Metadata = [:]
  var logLevel: Logger.Level {
    get { LogLevel.current }
    set {}
  }

  init(_ label: String) {}

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  static func write(_ level: Logger.Level, _ text: String) {
    printError(isJournal ? "<\(level.priority)>\(text)" : "displayfs: \(level): \(text)")
  }

  /// Whether standard error leads to the journal, which reads a priority at the beginning of a line (systemd.exec(5),
  /// `JOURNAL_STREAM`).
  private static let isJournal: Bool = {
    var status = stat()
    guard let stream = getenv("JOURNAL_STREAM"), fstat(STDERR_FILENO, &status) == 0 else { return false }
    return String(cString: stream) == "\(status.st_dev):\(status.st_ino)"
  }()
}

/// A log whose messages are queued, so that no worker waits for the log's destination.
protocol QueuedLog: LogHandler {
  static func write(_ level: Logger.Level, _ text: String)
}

extension QueuedLog {
  func log(event: LogEvent) {
    let text = "\(event.message)"
    let level = event.level
    LogWriter.add {
      Self.write(level, text)
    } report: {
      Self.write(.warning, droppedMessages($0))
    }
  }
}

/// The log of a daemon: the system log, which the journal reads too. If there is none, messages are lost.
struct SystemLog: QueuedLog {
  var metadata: Logger.Metadata = [:]
  var logLevel: Logger.Level {
    get { LogLevel.current }
    set {}
  }

  /// The name is static, because the C library keeps the pointer.
  init(_ label: String) {
    let name: StaticString = "displayfs"
    name.utf8Start.withMemoryRebound(to: CChar.self, capacity: name.utf8CodeUnitCount + 1) {
      openlog($0, LOG_PID, LOG_DAEMON)
    }
  }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  static func write(_ level: Logger.Level, _ text: String) {
    dfs_syslog(level.priority, text)
  }
}

private func droppedMessages(_ count: Int) -> String {
  "\(count) messages were dropped here: the log did not accept them in time"
}

extension Logger.Level {
  /// The priority for syslog(3).
  fileprivate var priority: CInt {
    switch self {
    case .trace, .debug: LOG_DEBUG
    case .info: LOG_INFO
    case .notice: LOG_NOTICE
    case .warning: LOG_WARNING
    case .error: LOG_ERR
    case .critical: LOG_CRIT
    }
  }
}
