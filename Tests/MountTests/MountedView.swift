import Glibc
import Testing

/// A backing tree in a temporary directory and the view of it, mounted for as long as this object lives.
final class MountedView {
  /// The backing tree.
  let source: String
  let mountPoint: String
  private let base: String

  struct MountFailure: Error, CustomStringConvertible {
    let description: String
  }

  /// - Parameters:
  ///   - options: as after `-o`. English, unless they name a language.
  ///   - build: fills the backing tree at the given path before the mount.
  init(_ options: String = "", build: (String) throws -> Void = { _ in }) throws {
    var template = Array("\(Shell.temporaryDirectory)/displayfs-test-XXXXXX".utf8CString)
    guard let made = mkdtemp(&template), let resolved = realpath(made, nil) else {
      throw MountFailure(description: "mkdtemp: \(errno)")
    }
    defer { free(resolved) }
    base = String(cString: resolved)
    source = base + "/source"
    mountPoint = base + "/view"
    // Ordinary users take part in some tests.
    chmod(base, 0o755)
    mkdir(source, 0o755)
    mkdir(mountPoint, 0o755)
    try build(source)
    try mount(options)
  }

  /// Mounts what was unmounted.
  func mount(_ options: String = "") throws {
    let language = options.contains("language=") ? "" : ",language=en"
    let outcome = Displayfs.run(["mount", "-o", options + language, source, mountPoint])
    guard outcome.status == 0 else {
      throw MountFailure(description: "the mount failed with status \(outcome.status): \(outcome.errorText)")
    }
  }

  /// Unmounts, and waits until what was open is closed. A mount that stays busy is an issue of the test, which names the
  /// processes that hold it, and is detached.
  func unmount() {
    func isGone() -> Bool {
      if geteuid() == 0 { umount2(mountPoint, 0) } else { _ = Shell.run(["fusermount3", "-u", mountPoint]) }
      return !Displayfs.isMounted(mountPoint)
    }
    if !Displayfs.isMounted(mountPoint) || eventually(isGone) { return }
    // It also names the holders of a mount that it does not unmount.
    let refused = Displayfs.run(["unmount", mountPoint])
    if refused.status == 0 { return }
    Issue.record("\(mountPoint) stays busy and is detached: \(refused.errorText)")
    if geteuid() == 0 {
      umount2(mountPoint, CInt(MNT_DETACH))
    } else {
      _ = Shell.run(["fusermount3", "-uz", mountPoint])
    }
  }

  deinit {
    unmount()
    // A file system that a test mounted in the backing tree, and whatever is mounted twice.
    _ = Shell.run(
      """
      for attempt in 1 2 3; do
        cut -d' ' -f5 /proc/self/mountinfo | grep -F '\(base)/' | sort -r | while read -r path; do umount -l "$path"; done
      done
      if ! grep -qF ' \(base)/' /proc/self/mountinfo; then rm -rf --one-file-system '\(base)'; fi
      """)
  }

  /// The path of an entry of the view.
  func at(_ path: String) -> String { path.isEmpty ? mountPoint : "\(mountPoint)/\(path)" }

  /// The path of an entry of the backing tree.
  func real(_ path: String) -> String { path.isEmpty ? source : "\(source)/\(path)" }

  /// What the view lists.
  func listing(_ path: String = "") -> Set<FileName> { names(at(path)) }

  /// What the backing directory holds once nothing is in staging any more, half a minute later at most.
  func realListing(_ path: String = "") -> Set<FileName> {
    if path.isEmpty { _ = eventually(within: .work) { !isThere(real(".displayfs-staging")) } }
    return names(real(path))
  }

  /// Runs a script in the root of the view; `$SOURCE` is the backing tree.
  @discardableResult
  func shell(_ script: String) -> Outcome {
    Shell.run(script, in: mountPoint, with: ["SOURCE": source, "VIEW": mountPoint])
  }

  /// The same as another user. Needs root.
  func run(as user: uid_t, group: gid_t? = nil, groups: [gid_t] = [], _ script: String) -> Outcome {
    let list =
      groups.isEmpty ? "--clear-groups" : "--groups=" + groups.map(String.init).joined(separator: ",")
    return Shell.run(
      [
        "setpriv", "--reuid=\(user)", "--regid=\(group ?? user)", list, "/bin/sh", "-c",
        "cd '\(mountPoint)' && { \(script)\n}",
      ], with: ["SOURCE": source])
  }
}

/// The program under test.
enum Displayfs {
  /// What the environment names, else the program beside the test bundle, in the directory that both are built in.
  static let path: String = {
    if let path = getenv("DISPLAYFS_BINARY") { return String(cString: path) }
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = buffer.withUnsafeMutableBytes { readlink("/proc/self/exe", $0.baseAddress!, $0.count) }
    let running = String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
    let candidates = [running] + CommandLine.arguments
    for candidate in candidates {
      guard let slash = candidate.lastIndex(of: "/") else { continue }
      let program = candidate[..<slash] + "/displayfs"
      if access(String(program), X_OK) == 0 { return String(program) }
    }
    return "displayfs"
  }()

  static func run(_ arguments: [String], with variables: [String: String] = [:]) -> Outcome {
    Shell.run([path] + arguments, with: variables)
  }

  static func isMounted(_ path: String) -> Bool {
    (text("/proc/self/mountinfo") ?? "").split(separator: "\n").contains {
      $0.split(separator: " ").dropFirst(4).first.map(String.init) == path
    }
  }
}

extension Trait where Self == ConditionTrait {
  /// For tests that change users or mount other file systems.
  static var asRoot: Self { .enabled(if: geteuid() == 0, "Only root can do what this test needs.") }
}
