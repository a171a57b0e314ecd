import CLinux
import Glibc
import SystemPackage
import Testing

/// A program that alternates between the tree and the mount, and never waits until one side is notified of the other's changes.
///
/// `DISPLAYFS_INTERLEAVED_SEED` repeats a run, `DISPLAYFS_INTERLEAVED_OPERATIONS` says how long it is.
@Suite(.mounting) struct InterleavedAccessTests {
  private static func number(_ variable: String, default standard: UInt64) -> UInt64 {
    getenv(variable).flatMap { UInt64(String(cString: $0)) } ?? standard
  }

  @Test(arguments: ["", "profile=none", "passthrough=off", "profile=none,passthrough=off"])
  func operationByPath_afterChangeInBackingTree_reachesCurrentFile(options: String) throws {
    // A new seed in each run: the result depends on how soon the kernel is notified.
    let seed = Self.number("DISPLAYFS_INTERLEAVED_SEED", default: UInt64.random(in: 0...UInt64(UInt32.max)))
    let run = InterleavedRun(try MountedView(options), twin: try TemporaryDirectory(), seed: seed)
    do {
      for _ in 0..<Self.number("DISPLAYFS_INTERLEAVED_OPERATIONS", default: 3000) { try run.step() }
    } catch let deviation as InterleavedRun.Deviation {
      Issue.record("seed \(seed), \(options): \(deviation.text)\n\(run.recent.joined(separator: "\n"))")
    }
  }
}

/// Random operations on files, each of them done through the mount or beside it, and once more in a directory of its own.
///
/// An operation through the mount may fail because the kernel still caches the previous state. An operation that succeeds must
/// change the tree as it changed its twin.
private final class InterleavedRun {
  struct Deviation: Error { let text: String }

  private enum Operation: CaseIterable {
    case make, empty, append, write, makeNew, hold, writeHeld, release, remove, rename, link, cut, save, mode,
      time, attribute
  }

  /// The operations since both sides were empty.
  private(set) var recent: [String] = []

  private static let names = ["a", "b", "c", "d"]
  private let view: MountedView
  private let twin: TemporaryDirectory
  private var random: SplitMix
  private var before: [String: String] = [:]
  private var held: [(mounted: OpenFile, twin: OpenFile)] = []

  init(_ view: MountedView, twin: TemporaryDirectory, seed: UInt64) {
    self.view = view
    self.twin = twin
    random = SplitMix(seed)
  }

  /// Before the view is unmounted, which what is open in it keeps busy.
  deinit { held = [] }

  func step() throws {
    let operation = Operation.allCases.randomElement(using: &random)!
    let name = Self.names.randomElement(using: &random)!
    let other = Self.names.randomElement(using: &random)!
    let content = String(repeating: "\(recent.count % 10)", count: Int.random(in: 1...5, using: &random))
    switch operation {
    case .hold, .writeHeld, .release: return try step(held: operation, name, content)
    default: break
    }
    let isMounted = Bool.random(using: &random)
    let expected = refusal { try perform(operation, in: twin.root, name, other, content) }
    let directory = isMounted ? view.mountPoint : view.source
    let found = refusal { try perform(operation, in: directory, name, other, content) }
    try compare(
      "\(operation) \(name) \(other) \(content)\(isMounted ? ", mounted" : "")", name, expected, found,
      isMounted)
  }

  private func step(held operation: Operation, _ name: String, _ content: String) throws {
    switch operation {
    case .hold where held.count < 3:
      var opened: [OpenFile] = []
      let expected = refusal { opened.append(try OpenFile(twin.path(name), O_RDWR | O_CREAT)) }
      let found = refusal { opened.append(try OpenFile(view.at(name), O_RDWR | O_CREAT)) }
      if opened.count == 2 { held.append((mounted: opened[1], twin: opened[0])) }
      try compare("hold \(name), mounted", name, expected, found, true)
    case .writeHeld where !held.isEmpty:
      held.last!.mounted.write(content, at: 0)
      held.last!.twin.write(content, at: 0)
      try compare("write \(content) into what is held", name, nil, nil, true)
    default:
      if !held.isEmpty { held.removeFirst() }
      recent.append("let go")
    }
  }

  private func perform(
    _ operation: Operation, in directory: String, _ name: String, _ other: String, _ content: String
  ) throws {
    let path = "\(directory)/\(name)"
    let otherPath = "\(directory)/\(other)"
    func write(_ flags: CInt, to path: String) throws { try OpenFile(path, O_WRONLY | flags).write(content) }
    func call(_ body: () -> CInt) throws { if let error = failure(body) { throw error } }
    switch operation {
    case .make: try write(O_CREAT, to: path)
    case .empty: try write(O_CREAT | O_TRUNC, to: path)
    case .append: try write(O_CREAT | O_APPEND, to: path)
    case .write: try write(0, to: path)
    case .makeNew: try write(O_CREAT | O_EXCL, to: path)
    case .remove: try call { unlink(path) }
    case .rename: try call { Glibc.rename(path, otherPath) }
    case .link: try call { Glibc.link(path, otherPath) }
    case .cut: try call { truncate(path, 1) }
    case .mode: try call { chmod(path, content.count % 2 == 0 ? 0o600 : 0o640) }
    case .time:
      let times = [timeval(tv_sec: content.count, tv_usec: 0), timeval(tv_sec: content.count, tv_usec: 0)]
      try call { utimes(path, times) }
    case .attribute: try call { setxattr(path, "user.content", content, content.utf8.count, 0) }
    case .save:
      try write(O_CREAT | O_TRUNC, to: "\(path)~")
      try call { Glibc.rename("\(path)~", path) }
    case .hold, .writeHeld, .release: break
    }
  }

  /// The error with which an operation failed; nil when it succeeded.
  private func refusal(_ body: () throws -> Void) -> Errno? {
    do { try body() } catch { return error as? Errno ?? .ioError }
    return nil
  }

  private func compare(
    _ what: String, _ name: String, _ expected: Errno?, _ found: Errno?, _ isMounted: Bool
  ) throws {
    recent.append("\(what): \(expected.map(\.description) ?? "done")")
    let (tree, twinTree) = (files(view.source), files(twin.root))
    // The kernel ignores a rename between two names that it still caches as links of one file.
    let isLate =
      isMounted && (found != nil && found != expected || what.hasPrefix("rename") && tree == before)
    guard isLate ? tree == before : found == expected && tree == twinTree else {
      let open = held.map { "\($0.mounted.text() ?? "?"), \($0.mounted.status.st_nlink) links" }
      throw Deviation(
        text:
          "\(found.map(\.description) ?? "done"); the tree has \(tree), its twin \(twinTree), held is \(open)"
      )
    }
    before = tree
    if isLate || recent.count == 60 { try beginAnew() }
  }

  /// What there is: content, number of links, mode, a time that was set, and an extended attribute, by name.
  private func files(_ directory: String) -> [String: String] {
    var result: [String: String] = [:]
    for name in Self.names {
      guard let file = try? OpenFile("\(directory)/\(name)") else { continue }
      let status = file.status
      var value = [CChar](repeating: 0, count: 8)
      let length = max(0, fgetxattr(file.descriptor, "user.content", &value, 7))
      let time = status.st_mtim.tv_sec < 10 ? "\(status.st_mtim.tv_sec)" : "now"
      result[name] =
        "\(file.text() ?? "?") \(status.st_nlink) \(String(status.st_mode, radix: 8)) \(time) "
        + String(decoding: value.prefix(length).map(UInt8.init), as: UTF8.self)
    }
    return result
  }

  private func beginAnew() throws {
    held = []
    for directory in [view.source, twin.root] {
      for name in Self.names + Self.names.map({ "\($0)~" }) { unlink("\(directory)/\(name)") }
    }
    try waitUntil { view.listing().isEmpty && !Self.names.contains { isThere(view.at($0)) } }
    recent = []
    before = [:]
  }
}
