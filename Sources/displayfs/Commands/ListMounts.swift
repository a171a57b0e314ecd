import ArgumentParser
import BackingTree
import CLinux
import Glibc
import SystemPackage

struct ListMounts: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "list", abstract: "List the views that are mounted.")

  @Flag(help: "Print JSON.")
  var json = false

  func run() {
    let mounts = MountTable.displayfs.map { (line: $0, state: MountState.of($0)) }
    if json {
      let objects = mounts.map { mount in
        JSON.object([
          ("source", mount.line.source.bytes), ("mountPoint", mount.line.mountPoint.bytes),
          ("options", Array(mount.line.options.joined(separator: ",").utf8)),
          ("state", Array(mount.state.word.utf8)),
        ])
      }
      return Output.line(JSON.array(objects))
    }
    for (line, state) in mounts {
      Output.text(
        line.source.bytes + Array(" on ".utf8) + line.mountPoint.bytes
          + Array(
            " (\(line.options.joined(separator: ",")))\(state == .responding ? "" : ": \(state.sentence)")"
              .utf8)
      )
    }
  }
}

/// Whether a mount can be used.
enum MountState: Equatable {
  case responding
  /// Its daemon has died, and every call fails.
  case dead
  /// Its daemon responds, but the backing tree returns an error, as where the server of a network file system is gone.
  case failing(Errno)
  /// It belongs to another user, and only that user may access it.
  case foreign
  /// Its daemon is running but does not reply.
  case silent
  /// This user may have no further process, which could wait for the daemon.
  case unknown

  /// The word for it in JSON.
  var word: String {
    switch self {
    case .responding: "answers"
    case .dead: "dead"
    case .failing: "failing"
    case .foreign: "foreign"
    case .silent: "silent"
    case .unknown: "unknown"
    }
  }

  var sentence: String {
    switch self {
    case .responding: "its daemon responds"
    case .dead: "its daemon has died; remove the mount with displayfs unmount"
    case .failing(let error):
      "its source fails: \(error); if its file system was mounted anew, run displayfs unmount and mount the view again"
    case .foreign: "it belongs to another user"
    case .silent: "its daemon does not respond; detach it with displayfs unmount --force"
    case .unknown: "it cannot be examined: \(Program.limitReached)"
    }
  }

  /// How long a daemon may take before it counts as silent, in milliseconds.
  private static let replyTimeout: CInt = 3000

  static func of(_ mount: MountTable.Line) -> MountState {
    switch probe(mount.mountPoint, look, for: replyTimeout) {
    case .error(0): .responding
    case .error(EACCES): .foreign
    case .error(let error) where errorsOfDeadMount.contains(error): ofMount(mount, failingWith: error)
    case .error(let error): .failing(Errno(rawValue: error))
    case .none: ofUnresponsive(mount)
    case .notMade: .unknown
    }
  }

  /// ECONNREFUSED: the daemon refused INIT, or since Linux 7.3 ended before it replied (`fuse_get_req`). ECONNABORTED: it has just
  /// died.
  private static let errorsOfDeadMount: Set = [ENOTCONN, ECONNREFUSED, ECONNABORTED]

  /// The errors of a dead mount may come from the backing tree, too: a network file system that waits for its server returns
  /// ENOTCONN.
  private static func ofMount(_ mount: MountTable.Line, failingWith error: CInt) -> MountState {
    switch probe(mount.mountPoint, MountQuery.requireReply, for: replyTimeout) {
    case .error(let reply) where errorsOfDeadMount.contains(reply): .dead
    case .error: .failing(Errno(rawValue: error))
    case .none: ofUnresponsive(mount)
    case .notMade: .unknown
    }
  }

  private static func ofUnresponsive(_ mount: MountTable.Line) -> MountState {
    DaemonProcesses.isOneKilled(of: mount) ? .dead : .silent
  }

  /// Why a mount point does not reply to a query, which failed with `error`.
  static func failure(of mountPoint: FilePath, _ error: Errno) -> Failure {
    guard let mount = MountTable.topmost(at: mountPoint), mount.isView else {
      return Failure(.usage, "\(mountPoint): no displayfs is mounted here")
    }
    let state = of(mount)
    return Failure(.usage, "\(mountPoint): \(state == .responding ? "\(error)" : state.sentence)")
  }

  /// How long anything else may take before a command gives up, in milliseconds. A disk may have to spin up.
  private static let longestReply: CInt = 10_000

  /// Throws if a call does not end: the file system of a path, or one beneath, does not respond. Where no process can be created
  /// that would wait for it, the caller has to.
  static func expectReply(
    _ path: FilePath, to call: (FilePath) throws(Errno) -> Void = look
  ) throws(Failure) {
    guard case .none = probe(path, call, for: longestReply) else { return }
    throw Failure(
      .system,
      "\(path): the file system has not replied for \(longestReply / 1000) seconds; if the daemon of a view is stopped, "
        + "displayfs list shows which")
  }

  private static func look(_ path: FilePath) throws(Errno) { try path.statBypassingCache() }

  private enum Reply {
    /// The errno of the call; 0 if it succeeded.
    case error(CInt)
    /// The call did not end in time.
    case none
    /// No process could be created.
    case notMade
  }

  /// Makes a call in a child process: a process that waits for a hanging daemon cannot be interrupted.
  private static func probe(
    _ path: FilePath, _ call: (FilePath) throws(Errno) -> Void, for timeout: CInt
  ) -> Reply {
    var ends: [CInt] = [0, 0]
    guard pipe(&ends) == 0 else { return .notMade }
    defer { close(ends[0]) }
    let child = dfs_fork()
    if child == 0 {
      // It may outlive this process, and a pipe that it had open would not end.
      for standard in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where standard != ends[1] {
        close(standard)
      }
      var reply: UInt8 = 0
      do throws(Errno) { try call(path) } catch {
        reply = UInt8(truncatingIfNeeded: error.rawValue)
      }
      write(ends[1], &reply, 1)
      _exit(0)
    }
    close(ends[1])
    guard child > 0 else { return .notMade }
    var waiting = pollfd(fd: ends[0], events: Int16(POLLIN), revents: 0)
    var reply: UInt8 = 0
    guard poll(&waiting, 1, timeout) == 1, read(ends[0], &reply, 1) == 1 else {
      kill(child, SIGKILL)
      return .none
    }
    waitpid(child, nil, 0)
    return .error(CInt(reply))
  }
}
