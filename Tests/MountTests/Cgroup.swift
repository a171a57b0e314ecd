import Glibc
import Testing

/// A cgroup with processes that can be frozen, as container managers do to pause a container. (cgroup v2, `cgroup.freeze`)
final class Cgroup {
  private let path: String

  private static let top: String? = (text("/proc/self/mountinfo") ?? "").split(separator: "\n").first {
    $0.contains(" - cgroup2 ")
  }.map { String($0.split(separator: " ")[4]) }

  init() throws {
    var template = Array("\(try #require(Self.top))/displayfs-test-XXXXXX".utf8CString)
    let made = mkdtemp(&template).map { String(cString: $0) }
    path = try #require(made)
  }

  deinit {
    try? thaw()
    // Ended processes leave it a moment later.
    _ = eventually(within: .work) { rmdir(path) == 0 }
  }

  /// The file to which the id of a process is written to add it, and 0 for the writing one.
  var processes: String { "\(path)/cgroup.procs" }

  func add(_ process: pid_t) throws { try write("\(process)", to: "cgroup.procs") }
  func freeze() throws { try write("1", to: "cgroup.freeze") }
  func thaw() throws { try write("0", to: "cgroup.freeze") }

  /// Whether none of the processes runs. One that waits in the kernel for the reply of a daemon is not frozen.
  var isFrozen: Bool { text("\(path)/cgroup.events")?.contains("frozen 1") == true }

  private func write(_ value: String, to file: String) throws {
    let file = try OpenFile("\(path)/\(file)", O_WRONLY)
    try #require(file.write(value) > 0)
  }

  static let canBeMade: Bool = {
    guard geteuid() == 0, top != nil, let cgroup = try? Cgroup() else { return false }
    return (try? cgroup.thaw()) != nil
  }()
}

extension Trait where Self == ConditionTrait {
  static var cgroups: Self { .enabled(if: Cgroup.canBeMade, "No cgroup (v2) can be made here.") }
}
