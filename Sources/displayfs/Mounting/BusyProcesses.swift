import BackingTree
import Glibc
import SystemPackage

/// The processes that keep a mount busy, as fuser(1) lists them, as far as this user may see them.
struct BusyProcesses {
  struct BusyProcess {
    let process: pid_t
    let name: String
    let held: String
  }

  private let found: [BusyProcess]

  /// Searches /proc without a request to the mount. A process in uninterruptible sleep is skipped: it may wait for a mount that
  /// does not reply, and inspecting it could block too.
  init(of mount: MountTable.Line) {
    var found: [BusyProcess] = []
    for process in ProcessTable.all where process != getpid() {
      guard let (name, state) = ProcessTable.nameAndState(of: process), state != "D", state != "Z",
        let held = Self.held(by: process, of: mount)
      else { continue }
      found.append(BusyProcess(process: process, name: name, held: held))
    }
    self.found = found.sorted { $0.process < $1.process }
  }

  func contains(where matches: (pid_t) -> Bool) -> Bool { found.contains { matches($0.process) } }

  /// The first few processes with what each holds, as a sentence; nil if none is found.
  var sentence: String? {
    if found.isEmpty { return nil }
    let named = found.prefix(5).map { "\($0.name) (\($0.process)) has \($0.held) there" }
    let rest = found.count > 5 ? ["\(found.count - 5) more"] : []
    return (named + rest).joined(separator: ", ")
  }

  private static func held(by process: pid_t, of mount: MountTable.Line) -> String? {
    if isBelow(mount.mountPoint, "/proc/\(process)/cwd") { return "its working directory" }
    if isBelow(mount.mountPoint, "/proc/\(process)/root") { return "its root directory" }
    if isBelow(mount.mountPoint, "/proc/\(process)/exe") { return "its program" }
    let mark = Array("mnt_id:\t\(mount.id)\n".utf8)
    return ProcessTable.hasOpen(mark, "\(process)") ? "a file open" : nil
  }

  private static func isBelow(_ mountPoint: FilePath, _ link: String) -> Bool {
    guard let target = try? Directory(descriptor: AT_FDCWD).symlinkTarget(link) else { return false }
    let path = mountPoint.bytes
    return target == path || target.starts(with: path + [0x2f])
  }
}
