import Glibc

/// Programs that the benchmark runs.
enum Program {
  /// Runs a program that is found along PATH; its output is lost.
  ///
  /// - Parameter errors: the path of a file for its standard error.
  /// - Returns: its exit status, 127 when it cannot be run.
  @discardableResult
  static func run(_ arguments: [String], errors: String? = nil) -> CInt {
    start(arguments, errors: errors).map(wait) ?? 127
  }

  /// Runs a program. - Returns: what it wrote to standard output; nil when it failed.
  static func output(_ arguments: [String]) -> String? {
    guard let pipe = try? Pipe(), let output = fdopen(pipe.output, "r") else { return nil }
    defer { fclose(output) }
    let child = start(arguments, output: pipe.input)
    close(pipe.input)
    let content = text(output)
    return child.map(wait) == 0 ? content : nil
  }

  /// Starts a program with the credentials and on the processors of the calling thread. What is not given is /dev/null.
  ///
  /// - Returns: its process; nil when it cannot be run.
  static func start(
    _ arguments: [String], input: CInt? = nil, output: CInt? = nil, errors: String? = nil
  ) -> pid_t? {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for (standard, given) in [(STDIN_FILENO, input), (STDOUT_FILENO, output)] {
      if let given {
        posix_spawn_file_actions_adddup2(&actions, given, standard)
      } else {
        posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0)
      }
    }
    posix_spawn_file_actions_addopen(
      &actions, STDERR_FILENO, errors ?? "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0o644)
    var pointers: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
    defer { for pointer in pointers { free(pointer) } }
    var child: pid_t = 0
    return posix_spawnp(&child, arguments[0], &actions, nil, &pointers, environ) == 0 ? child : nil
  }

  /// - Returns: the exit status, 128 when a signal ended it.
  static func wait(for child: pid_t) -> CInt {
    var status: CInt = 0
    while waitpid(child, &status, 0) < 0 && errno == EINTR {}
    return status & 0x7f == 0 ? (status >> 8) & 0xff : 128
  }

  /// Runs a script in a directory. - Throws: when it fails.
  static func shell(_ script: String, in directory: String) throws {
    let status = run(["/bin/sh", "-c", "cd '\(directory)' && { \(script)\n}"])
    if status != 0 { throw Problem("`\(script)` ended with status \(status)") }
  }
}

/// Both ends of a pipe, which no program inherits.
struct Pipe {
  let input: CInt
  let output: CInt

  init() throws {
    var ends: [CInt] = [0, 0]
    guard pipe(&ends) == 0 else { throw Problem.system("pipe") }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    (output, input) = (ends[0], ends[1])
  }
}

/// The content of a small file, nil when it cannot be read.
func text(_ path: String) -> String? {
  guard let file = fopen(path, "r") else { return nil }
  defer { fclose(file) }
  return text(file)
}

/// What is left to read.
private func text(_ file: UnsafeMutablePointer<FILE>) -> String {
  var bytes: [UInt8] = []
  var buffer = [UInt8](repeating: 0, count: 65536)
  while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer.prefix(count) }
  return String(decoding: bytes, as: UTF8.self)
}

func write(_ content: String, to path: String) throws {
  guard let file = fopen(path, "w") else { throw Problem.system(path) }
  defer { fclose(file) }
  guard fputs(content, file) >= 0 else { throw Problem.system(path) }
}
