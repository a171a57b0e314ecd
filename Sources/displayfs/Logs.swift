import Glibc
import Logging
import Synchronization

/// How much is logged, in the whole process.
enum LogLevel {
  private static let levels: [Logger.Level] = [.info, .debug, .trace, .warning]
  private static let index = Atomic(0)

  static var current: Logger.Level { levels[index.load(ordering: .relaxed)] }

  /// From the usual level to more, and at last to less than that.
  static func cycle(_ logger: Logger) {
    let next = (index.load(ordering: .relaxed) + 1) % levels.count
    index.store(next, ordering: .relaxed)
    logger.log(level: levels[next], "messages of level \(levels[next]) and above are logged from now on")
  }
}

/// In the foreground: one line each on standard error.
struct StandardErrorLog: LogHandler {
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

  func log(event: LogEvent) {
    printError(
      Self.isJournal
        ? "<\(event.level.priority)>\(event.message)" : "displayfs: \(event.level): \(event.message)")
  }

  /// Whether standard error leads to the journal, which reads a priority at the beginning of a line
  /// (systemd.exec(5), `JOURNAL_STREAM`).
  private static let isJournal: Bool = {
    var status = stat()
    guard let stream = getenv("JOURNAL_STREAM"), fstat(STDERR_FILENO, &status) == 0 else { return false }
    return String(cString: stream) == "\(status.st_dev):\(status.st_ino)"
  }()
}

/// As a daemon: the system log, which the journal reads too. Where there is none, nothing is said.
struct SystemLog: LogHandler {
  var metadata: Logger.Metadata = [:]
  var logLevel: Logger.Level {
    get { LogLevel.current }
    set {}
  }

  /// The name stays where it is: the C library keeps the pointer.
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

  func log(event: LogEvent) {
    withVaList([]) { vsyslog(event.level.priority, "\(event.message)".replacingPercent, $0) }
  }
}

extension Logger.Level {
  /// That of syslog(3).
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

extension String {
  /// For printf: a percent sign in a name is one.
  fileprivate var replacingPercent: String {
    split(separator: "%", omittingEmptySubsequences: false).joined(separator: "%%")
  }
}
