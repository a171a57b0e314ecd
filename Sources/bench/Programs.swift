import Glibc

/// Programs that the benchmark runs.
enum Program {
  /// Runs a program that is found along PATH; its output is lost.
  ///
  /// - Returns: its exit status, 127 when it cannot be run.
  @discardableResult
  static func run(_ arguments: [String]) -> CInt {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for standard in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] {
      posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0)
    }
    var pointers: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
    defer { for pointer in pointers { free(pointer) } }
    var child: pid_t = 0
    guard posix_spawnp(&child, arguments[0], &actions, nil, &pointers, environ) == 0 else { return 127 }
    var status: CInt = 0
    while waitpid(child, &status, 0) < 0 && errno == EINTR {}
    return status & 0x7f == 0 ? (status >> 8) & 0xff : 128
  }

  /// Runs a script in a directory. - Throws: when it fails.
  static func shell(_ script: String, in directory: String) throws {
    let status = run(["/bin/sh", "-c", "cd '\(directory)' && { \(script)\n}"])
    if status != 0 { throw Problem("`\(script)` ended with status \(status)") }
  }

  static func exists(_ name: String) -> Bool {
    if name.contains("/") { return access(name, X_OK) == 0 }
    return run(["/bin/sh", "-c", "command -v \(name)"]) == 0
  }
}

/// The content of a small file, nil when it cannot be read.
func text(_ path: String) -> String? {
  guard let file = fopen(path, "r") else { return nil }
  defer { fclose(file) }
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

/// What the figures were taken on.
enum Machine {
  static var description: String {
    var name = utsname()
    uname(&name)
    let release = withUnsafeBytes(of: &name.release) {
      String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
    }
    let model = text("/proc/cpuinfo")?.split(separator: "\n").first { $0.hasPrefix("model name") }?
      .split(separator: ":").last.map { $0.drop { $0 == " " } }
    // What is asked of a daemon wakes somebody.
    let halts =
      text("/sys/module/haltpoll/parameters/guest_halt_poll_ns") == "0\n" ? ", halted as soon as idle" : ""
    return
      "Linux \(release), \(sysconf(CInt(_SC_NPROCESSORS_ONLN))) × \(model ?? "an unnamed processor")\(halts)"
  }
}

/// Runs `body` in `count` threads at once, which begin together. - Throws: the first error of one of them.
func inThreads(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Void) throws {
  final class Job: @unchecked Sendable {
    let body: () throws -> Void
    var failure: (any Error)?
    init(_ body: @escaping () throws -> Void) { self.body = body }
  }
  if count == 1 { return try body(0) }
  let jobs = (0..<count).map { index in Job { try body(index) } }
  let threads = jobs.map { job in
    var id = pthread_t()
    let argument = Unmanaged.passUnretained(job).toOpaque()
    pthread_create(
      &id, nil,
      { argument in
        let job = Unmanaged<Job>.fromOpaque(argument!).takeUnretainedValue()
        do { try job.body() } catch { job.failure = error }
        return nil
      }, argument)
    return id
  }
  for thread in threads { pthread_join(thread, nil) }
  if let failure = jobs.compactMap(\.failure).first { throw failure }
}
