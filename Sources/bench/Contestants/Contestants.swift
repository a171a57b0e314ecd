import Glibc

/// A file system that is measured.
struct Contestant {
  let name: String
  /// The command that mounts, without the two directories, which come last; nil for the backing directory itself.
  private let command: [String]?
  /// Whether it is only what it is called where the kernel reads and writes its files.
  private let needsPassthrough: Bool

  private init(_ name: String, _ command: [String]?, needsPassthrough: Bool = false) {
    self.name = name
    self.command = command
    self.needsPassthrough = needsPassthrough
  }

  /// The backing directory comes first: the others are compared with it.
  static func all(_ kind: MountKind, _ programs: ContestantPrograms) -> [Contestant] {
    [Contestant("backing directory", nil)] + (kind == .root ? ofRoot(programs) : ofUser(programs))
  }

  private static func ofRoot(_ programs: ContestantPrograms) -> [Contestant] {
    [
      Contestant("displayfs", [programs.displayfs, "mount"]),
      Contestant("displayfs, mirror", [programs.displayfs, "mount", "-o", "profile=none"]),
      Contestant("bindfs", ["bindfs"]), mergerfs,
      Contestant("passthrough_hp", [programs.passthroughHp ?? "the example passthrough_hp"]),
    ]
  }

  private static func ofUser(_ programs: ContestantPrograms) -> [Contestant] {
    [
      Contestant(
        "displayfs", [programs.displayfsWithHelper ?? "the helper with its right", "mount"],
        needsPassthrough: true),
      Contestant("displayfs, no helper", [programs.displayfsAlone, "mount"]),
      Contestant("bindfs", userBindfs), Contestant("bindfs, caching", userBindfs + cachingOptions), mergerfs,
    ]
  }

  private static let mergerfs = Contestant(
    "mergerfs", ["mergerfs", "-o", "cache.files=partial,category.create=mfs"])

  /// allow_other, bindfs' default, is for root unless /etc/fuse.conf says otherwise.
  private static let userBindfs = ["bindfs", "--no-allow-other"]

  /// An ordinary user's mount can cache more than attributes and names: content, from one open to the next while size and
  /// modification time of the file stay the same, and negative entries, for a second.
  ///
  /// gocryptfs is no such peer: workloads set up their files in the backing tree, which it keeps encrypted, and its time goes
  /// to encryption.
  private static let cachingOptions = ["-o", "auto_cache,negative_timeout=1"]

  var mounts: Bool { command != nil }
  /// Whether it is displayfs, or the directory beneath.
  var isOurs: Bool { !mounts || name.hasPrefix("displayfs") }

  func mount(_ work: Scratch) throws -> Mounted {
    guard let command else { return Mounted(root: work.source, source: work.source, secondsToMount: 0) }
    let start = now()
    let log = work.home + "/mount.log"
    let status = Program.run(command + [work.source, work.mountPoint], errors: log)
    guard status == 0 else {
      let reason = text(log)?.split(separator: "\n").joined(separator: "; ") ?? "status \(status)"
      throw Problem(status == 127 ? "\(command[0]) is not here" : "it did not mount: \(reason)")
    }
    // Some return before they serve.
    while !Mounted.isMounted(work.mountPoint) || access(work.mountPoint, X_OK) != 0 {
      guard now() - start < 30 else { throw Problem("it did not mount within 30 s") }
      usleep(200)
    }
    return Mounted(root: work.mountPoint, source: work.source, secondsToMount: now() - start)
  }

  /// Mounts it once.
  ///
  /// - Returns: whether the kernel reads and writes its files itself, in the words of `displayfs status`; nil for others.
  /// - Throws: when it cannot be measured here.
  func probe(_ work: Scratch) throws -> String? {
    guard let command, name.hasPrefix("displayfs") else {
      try mount(work).unmount()
      return nil
    }
    let mounted = try mount(work)
    defer { mounted.unmount() }
    let passthrough = Program.output([command[0], "status", mounted.root])?.split(separator: "\n")
      .first { $0.hasPrefix("passthrough: ") }?.dropFirst("passthrough: ".count)
    guard let passthrough else { throw Problem("displayfs status reports nothing of passthrough") }
    if needsPassthrough, !passthrough.hasPrefix("on") { throw Problem("passthrough is \(passthrough)") }
    return String(passthrough)
  }
}
