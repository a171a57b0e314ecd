import Glibc
import Logging

/// In the foreground: one line each on standard error.
struct StandardErrorLog: LogHandler {
  var metadata: Logger.Metadata = [:]
  var logLevel: Logger.Level = .info

  init(_ label: String) {}

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) { printError("displayfs: \(event.level): \(event.message)") }
}

/// As a daemon: the system log, which the journal reads too. Where there is none, nothing is said.
struct SystemLog: LogHandler {
  var metadata: Logger.Metadata = [:]
  var logLevel: Logger.Level = .info

  init(_ label: String) { openlog("displayfs", LOG_PID, LOG_DAEMON) }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    let priority: CInt =
      switch event.level {
      case .trace, .debug: LOG_DEBUG
      case .info: LOG_INFO
      case .notice: LOG_NOTICE
      case .warning: LOG_WARNING
      case .error: LOG_ERR
      case .critical: LOG_CRIT
      }
    withVaList([]) { vsyslog(priority, "\(event.message)".replacingPercent, $0) }
  }
}

extension String {
  /// For printf: a percent sign in a name is one.
  fileprivate var replacingPercent: String {
    split(separator: "%", omittingEmptySubsequences: false).joined(separator: "%%")
  }
}
