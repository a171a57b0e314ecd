import Glibc

/// A directory of the benchmark's own: the backing tree and a mount point.
struct Scratch {
  private let base: String
  var source: String { base + "/source" }
  var mountPoint: String { base + "/mount" }

  init(in directory: String) throws {
    var template = Array("\(directory)/displayfs-bench-XXXXXX".utf8CString)
    guard let made = mkdtemp(&template) else { throw Problem.system(directory) }
    base = String(cString: made)
    mkdir(source, 0o755)
    mkdir(mountPoint, 0o755)
  }

  func remove() { Program.run(["rm", "-rf", "--one-file-system", base]) }
}

/// A file system that is measured.
struct Contestant {
  let name: String
  /// The command that mounts, without the two directories, which come last; nil for the backing directory itself.
  private let command: [String]?

  static let names = [
    "backing directory", "displayfs", "displayfs, plain", "bindfs", "mergerfs", "passthrough_hp",
  ]

  static func all(displayfs: String, passthroughHp: String?) -> [Contestant] {
    let commands: [[String]?] = [
      nil, [displayfs, "mount"], [displayfs, "mount", "-o", "profile=none"], ["bindfs"],
      ["mergerfs", "-o", "cache.files=partial,category.create=mfs"],
      passthroughHp.map { [$0] } ?? [""],
    ]
    return zip(names, commands).filter { $0.1.map { !$0[0].isEmpty && Program.exists($0[0]) } ?? true }
      .map { Contestant(name: $0.0, command: $0.1) }
  }

  var mounts: Bool { command != nil }
  /// Whether it is displayfs, or the directory beneath.
  var isOurs: Bool { !mounts || name.hasPrefix("displayfs") }

  func mount(_ work: Scratch) throws -> Mounted {
    guard let command else { return Mounted(root: work.source, source: work.source, secondsToMount: 0) }
    let start = now()
    let status = Program.run(command + [work.source, work.mountPoint])
    guard status == 0 else { throw Problem("it did not mount: status \(status)") }
    // Some come back before they answer.
    while !Mounted.isMounted(work.mountPoint) || access(work.mountPoint, X_OK) != 0 {
      guard now() - start < 30 else { throw Problem("it did not mount within 30 s") }
      usleep(200)
    }
    return Mounted(root: work.mountPoint, source: work.source, secondsToMount: now() - start)
  }
}

/// A contestant that is ready.
struct Mounted {
  let root: String
  let source: String
  let secondsToMount: Double

  static func isMounted(_ path: String) -> Bool {
    text("/proc/self/mountinfo")?.contains(" \(path) ") ?? false
  }

  /// The resident memory of the daemon in bytes; nil where there is none.
  var memory: Double? {
    guard root != source, let directory = opendir("/proc") else { return nil }
    defer { closedir(directory) }
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
      }
      guard let process = Int(name), process != getpid(),
        text("/proc/\(name)/cmdline")?.contains(root) == true,
        let line = text("/proc/\(name)/status")?.split(separator: "\n").first(where: {
          $0.hasPrefix("VmRSS:")
        }),
        let kilobytes = Double(line.split(whereSeparator: \.isWhitespace)[1])
      else { continue }
      return kilobytes * 1024
    }
    return nil
  }

  func unmount() {
    guard root != source else { return }
    for attempt in 0..<100 where Self.isMounted(root) {
      if Program.run(["fusermount3", attempt < 98 ? "-u" : "-uz", root]) != 0 { usleep(50_000) }
    }
  }
}
