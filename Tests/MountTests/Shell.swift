import Glibc

/// What became of a program.
struct Outcome: Sendable {
  /// The exit status, or 128 and the number of the signal that ended it.
  let status: CInt
  let output: [UInt8]
  let errors: [UInt8]

  /// The standard output without the line break at its end.
  var text: String { Self.trimmed(output) }
  var errorText: String { Self.trimmed(errors) }
  /// The lines of the standard output, as names.
  var names: Set<FileName> { Set(output.split(separator: 0x0a).map { FileName($0) }) }

  private static func trimmed(_ bytes: [UInt8]) -> String {
    var text = String(decoding: bytes, as: UTF8.self)
    while text.hasSuffix("\n") { text.removeLast() }
    return text
  }
}

/// Programs that tests run.
enum Shell {
  /// Runs `/bin/sh -c script` for at most a minute, or as many seconds as are named.
  static func run(
    _ script: String, in directory: String = "/", with variables: [String: String] = [:],
    within longest: Int = 60
  ) -> Outcome {
    run(["/bin/sh", "-c", "cd '\(directory)' || exit 125\n" + script], with: variables, within: longest)
  }

  /// Runs a program that is found along PATH.
  ///
  /// Its output goes to files: a daemon that it leaves behind would hold a pipe open.
  static func run(
    _ arguments: [String], with variables: [String: String] = [:], within longest: Int = 60
  ) -> Outcome {
    var template = Array("\(temporaryDirectory)/displayfs-output-XXXXXX".utf8CString)
    guard let directory = mkdtemp(&template).map({ String(cString: $0) }) else {
      return Outcome(status: 126, output: [], errors: Array("mkdtemp: \(errno)".utf8))
    }
    defer {
      for name in ["out", "err"] { unlink("\(directory)/\(name)") }
      rmdir(directory)
    }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "\(directory)/out", O_WRONLY | O_CREAT, 0o600)
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "\(directory)/err", O_WRONLY | O_CREAT, 0o600)
    guard let child = spawn(arguments, with: variables, within: longest, &actions) else {
      return Outcome(status: 127, output: [], errors: Array(String(cString: strerror(errno)).utf8))
    }
    return Outcome(
      status: reap(child), output: contents("\(directory)/out") ?? [],
      errors: contents("\(directory)/err") ?? [])
  }

  /// Starts a script that may take a minute, or as many seconds as are named, and does not wait for it. What it prints is lost.
  static func start(_ script: String, within longest: Int = 60) -> StartedProgram {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for standard in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] {
      posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0)
    }
    guard let child = spawn(["/bin/sh", "-c", script], with: [:], within: longest, &actions) else {
      fatalError("no program can be started: \(String(cString: strerror(errno)))")
    }
    return StartedProgram(id: child)
  }

  /// Waits for the end of a child. From then on another process may have its process id.
  ///
  /// - Returns: the exit status, or 128 and the number of the signal that ended it.
  static func reap(_ child: pid_t) -> CInt {
    var status: CInt = 0
    while waitpid(child, &status, 0) < 0 && errno == EINTR {}
    let signal = status & 0x7f
    return signal == 0 ? (status >> 8) & 0xff : 128 + signal
  }

  /// Starts a program that is ended after some seconds; nil, with the reason in `errno`, when it cannot be started.
  private static func spawn(
    _ arguments: [String], with variables: [String: String], within longest: Int,
    _ actions: inout posix_spawn_file_actions_t
  ) -> pid_t? {
    // The threads that tests run on block signals, and a child would inherit that.
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var signals = sigset_t()
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
    var child: pid_t = 0
    // The umask would be inherited too: a view that a test uses in this process leaves the last client's umask on the thread.
    let started = ["/bin/sh", "-c", "umask 022; exec timeout -k 5 \(longest) \"$@\"", "sh"] + arguments
    let failed = withCStrings(started) { arguments in
      withCStrings(environment(with: variables)) { environment in
        posix_spawn(&child, "/bin/sh", &actions, &attributes, arguments, environment)
      }
    }
    errno = failed
    return failed == 0 ? child : nil
  }

  static var temporaryDirectory: String { getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp" }

  /// That of the test process, but for the variables that choose a language and the configuration of its user.
  private static func environment(with variables: [String: String]) -> [String] {
    let inherited = (contents("/proc/self/environ") ?? []).split(separator: 0).map {
      String(decoding: $0, as: UTF8.self)
    }
    let defaults = ["LC_ALL": "C.UTF-8", "DISPLAYFS_CONFIG": "none"]
    let replaced = Set(variables.keys).union(defaults.keys).union(["LANGUAGE", "LC_MESSAGES", "LANG"])
    return inherited.filter { !replaced.contains(String($0.prefix { $0 != "=" })) }
      + defaults.merging(variables) { $1 }.map { "\($0.key)=\($0.value)" }
  }

  private static func withCStrings<R>(
    _ strings: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> R
  ) -> R {
    var pointers: [UnsafeMutablePointer<CChar>?] = strings.map { strdup($0) } + [nil]
    defer { for pointer in pointers { free(pointer) } }
    return pointers.withUnsafeMutableBufferPointer { body($0.baseAddress!) }
  }
}
