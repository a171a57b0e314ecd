import Glibc
import Testing

/// Does something to a daemon at the very moment when it is about to make a system call, or records its system calls.
final class Tracer {
  private let program: StartedProgram
  private var tracer: pid_t?

  struct AttachFailure: Error {}

  /// - Parameters:
  ///   - call: the name of the system call.
  ///   - action: what is done, as strace(1) has it after `inject=`.
  ///   - path: that of the only file at which it is done; nil for every file.
  convenience init(of daemon: pid_t, at call: String, _ action: String, on path: String? = nil) throws {
    let path = path.map { " -P '\($0)'" } ?? ""
    try self.init(of: daemon, "-o /dev/null -e trace=\(call) -e inject=\(call):\(action)\(path)")
  }

  /// - Parameter path: the file to which a line is written for each call of these names.
  convenience init(of daemon: pid_t, recording calls: [String], to path: String) throws {
    try self.init(of: daemon, "-o '\(path)' -e trace=\(calls.joined(separator: ","))")
  }

  private init(of daemon: pid_t, _ options: String) throws {
    program = Shell.start("exec strace -f -qq \(options) -p \(daemon)")
    guard eventually(within: .work, { Self.isTraced(daemon) }) else {
      stop()
      throw AttachFailure()
    }
    tracer = Self.tracer(of: "\(daemon)")
  }

  /// Lets go of a daemon that has not come to the call. One that has died can keep its tracer waiting.
  func stop() {
    if let tracer { kill(tracer, SIGKILL) }
    program.wait()
  }

  private static func isTraced(_ process: pid_t) -> Bool {
    let threads = names("/proc/\(process)/task")
    return !threads.isEmpty && threads.allSatisfy { tracer(of: "\(process)/task/\($0)") != nil }
  }

  private static func tracer(of path: String) -> pid_t? {
    for line in (text("/proc/\(path)/status") ?? "").split(separator: "\n")
    where line.hasPrefix("TracerPid:\t") {
      return pid_t(line.dropFirst(11)).flatMap { $0 == 0 ? nil : $0 }
    }
    return nil
  }

  /// Whether this user may trace other processes here.
  static let isPossible: Bool = {
    guard Shell.run(["strace", "-V"]).status == 0 else { return false }
    let victim = Shell.start("exec sleep 50")
    defer {
      victim.send(SIGKILL)
      victim.wait()
    }
    // `timeout` is what was started; what it runs is its only child.
    guard eventually(within: .work, { !children(of: victim.id).isEmpty }),
      let sleeping = children(of: victim.id).first
    else { return false }
    let probe = Shell.run(
      "timeout -k 1 1 strace -qq -o /dev/null -p \(sleeping); test $? -eq 124 && kill -KILL \(sleeping)")
    return probe.status == 0
  }()
}

extension Trait where Self == ConditionTrait {
  /// For tests that stop a daemon between two system calls.
  static var tracing: Self {
    .enabled(if: Tracer.isPossible, "strace is not installed, or processes cannot be traced here.")
  }
}
