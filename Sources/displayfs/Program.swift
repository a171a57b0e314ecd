import DisplayNames
import Glibc
import SystemPackage

/// Other programs, found along PATH, then in the system's directories: a service may have been started without PATH.
enum Program {
  /// Runs a program to its end.
  ///
  /// - Returns: its exit status, -1 if a signal ended it, nil if there is no such program.
  /// - Throws: a failure to create the process.
  static func run(_ name: String, _ arguments: [[UInt8]] = []) throws(Failure) -> CInt? {
    guard let child = try start(name, arguments) else { return nil }
    var status: CInt = 0
    while waitpid(child, &status, 0) < 0 && errno == EINTR {}
    return status & 0x7f == 0 ? (status >> 8) & 0xff : -1
  }

  /// Starts a program and does not wait for it.
  ///
  /// - Returns: its PID; nil if there is no such program.
  /// - Throws: a failure to create the process.
  static func start(_ name: String, _ arguments: [[UInt8]] = []) throws(Failure) -> pid_t? {
    guard let path = path(of: name) else { return nil }
    var words = words(name, arguments)
    defer { for word in words { free(word) } }
    fflush(nil)
    var child: pid_t = 0
    let error = path.withPlatformString { posix_spawn(&child, $0, nil, nil, &words, environ) }
    guard error == 0 else {
      throw Failure(
        .system,
        error == EAGAIN ? "\(name) cannot be run: \(limitReached)" : "\(path): \(Errno(rawValue: error))")
    }
    return child
  }

  /// Continues this process with another program. Returns only if that fails.
  static func replaceProcess(with name: String, _ arguments: [[UInt8]]) {
    guard let path = path(of: name) else { return }
    var words = words(name, arguments)
    defer { for word in words { free(word) } }
    fflush(nil)
    path.withPlatformString { _ = execv($0, &words) }
  }

  /// The arguments of a program as execve(2) takes them. The caller frees them.
  private static func words(_ name: String, _ arguments: [[UInt8]]) -> [UnsafeMutablePointer<CChar>?] {
    ([Array(name.utf8)] + arguments).map { word in
      (word + [0]).withUnsafeBytes { strdup($0.baseAddress!.assumingMemoryBound(to: CChar.self)) }
    } + [nil]
  }

  /// Why no process or thread can be created, and what to do. (EAGAIN)
  static let limitReached = "the limit of processes is reached; raise it (\(limits))"

  static let limits = "ulimit -u of this user, pids.max of this control group"

  /// The path of a program; nil if there is none that this user may run.
  static func path(of name: String) -> FilePath? {
    let path = getenv("PATH").map { String(cString: $0) } ?? ""
    let directories = path.parts(at: ":") + ["/usr/local/bin", "/usr/bin", "/bin"]
    return directories.map { FilePath($0).appending(name) }.first {
      $0.withPlatformString { access($0, X_OK) } == 0
    }
  }
}
