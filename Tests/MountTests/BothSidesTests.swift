import CFuse
import Glibc
import SystemPackage
import Testing

/// A program that works in the tree and through the mount by turns, and never waits until the one side is told of the other.
///
/// `DISPLAYFS_BOTH_SIDES_SEED` repeats a run, `DISPLAYFS_BOTH_SIDES_OPERATIONS` says how long it is.
@Suite(.mounting) struct BothSidesTests {
  private static func number(_ variable: String, default standard: UInt64) -> UInt64 {
    getenv(variable).flatMap { UInt64(String(cString: $0)) } ?? standard
  }

  @Test(arguments: ["", "profile=none"])
  func whatSucceedsIsDoneToTheFileThatHasTheName(options: String) throws {
    // Each time another: what happens depends on how soon the kernel is told.
    let seed = Self.number("DISPLAYFS_BOTH_SIDES_SEED", default: UInt64.random(in: 0...UInt64(UInt32.max)))
    let run = TwinRun(try MountedView(options), twin: try TemporaryDirectory(), seed: seed, isTold: options.isEmpty)
    do {
      for _ in 0..<Self.number("DISPLAYFS_BOTH_SIDES_OPERATIONS", default: 6000) { try run.step() }
    } catch let deviation as TwinRun.Deviation {
      Issue.record("seed \(seed), \(options): \(deviation.text)\n\(run.recent.joined(separator: "\n"))")
    }
  }
}

/// Random operations on files, each of them done through the mount or beside it, and once more in a directory of its own.
///
/// Through the mount they may fail because the kernel believes in what was a moment ago. Those that succeed must have done to
/// the tree what they did to its twin.
private final class TwinRun {
  struct Deviation: Error { let text: String }

  private enum Operation: CaseIterable {
    case make, empty, append, write, makeNew, hold, writeHeld, letGo, remove, rename, link, cut, save
  }

  /// The operations since both sides were empty.
  private(set) var recent: [String] = []

  private static let names = ["a", "b", "c", "d"]
  private let view: MountedView
  private let twin: TemporaryDirectory
  private let isTold: Bool
  private var random: SplitMix
  private var before: [String: String] = [:]
  private var overtaken = 0
  private var held: [(mounted: OpenFile, twin: OpenFile)] = []

  /// - Parameter isTold: whether the kernel is made to rename and remove what others have.
  init(_ view: MountedView, twin: TemporaryDirectory, seed: UInt64, isTold: Bool) {
    self.view = view
    self.twin = twin
    self.isTold = isTold
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
    case .hold, .writeHeld, .letGo: return try step(held: operation, name, content)
    default: break
    }
    let isMounted = Bool.random(using: &random)
    let expected = refusal { try perform(operation, in: twin.root, name, other, content) }
    let directory = isMounted ? view.mountPoint : view.source
    let found = refusal { try perform(operation, in: directory, name, other, content) }
    try compare(
      "\(operation) \(name) \(other) \(content)\(isMounted ? ", mounted" : "")", name, expected, found, isMounted)
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
    case .save:
      try write(O_CREAT | O_TRUNC, to: "\(path)~")
      try call { Glibc.rename("\(path)~", path) }
    case .hold, .writeHeld, .letGo: break
    }
  }

  /// With what an operation failed.
  private func refusal(_ body: () throws -> Void) -> Errno? {
    do { try body() } catch { return error as? Errno ?? .ioError }
    return nil
  }

  /// Whether others have renamed or removed what had a name, or put something else in its place. How long ago that is told
  /// depends on what else the machine does.
  private func hasJustLeft(_ name: String) -> Bool {
    recent.contains { line in
      ["rename", "remove", "save"].contains { line.hasPrefix("\($0) \(name) ") } && !line.contains("mounted")
    }
  }

  private func compare(
    _ what: String, _ name: String, _ expected: Errno?, _ found: Errno?, _ isMounted: Bool
  ) throws {
    recent.append("\(what): \(expected.map(\.description) ?? "done")")
    let (tree, twinTree) = (files(view.source), files(twin.root))
    // The kernel does nothing to two names that were links of one file a moment ago.
    let isLate = isMounted && (found != nil && found != expected || what.hasPrefix("rename") && tree == before)
    if isTold, isMounted, !isLate, found == nil, expected != nil || tree != twinTree, hasJustLeft(name) {
      // It was on its way to the file when the kernel was told that that is renamed or removed, and has arrived.
      overtaken += 1
      if overtaken <= 3 { return try beginAnew() }
    }
    guard isLate ? tree == before : found == expected && tree == twinTree else {
      throw Deviation(
        text: "\(found.map(\.description) ?? "done"); the tree has \(tree), its twin \(twinTree)")
    }
    before = tree
    if isLate || recent.count == 60 { try beginAnew() }
  }

  /// What there is: content and number of links by name.
  private func files(_ directory: String) -> [String: String] {
    var result: [String: String] = [:]
    for name in Self.names {
      guard let file = try? OpenFile("\(directory)/\(name)") else { continue }
      result[name] = "\(file.text() ?? "?") \(file.status.st_nlink)"
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
