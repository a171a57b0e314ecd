import CLinux
import Glibc
import SystemPackage
import Testing

/// Random operations through a mount, each compared with what the model says that it does.
///
/// `DISPLAYFS_MODEL_SEED` repeats a run, `DISPLAYFS_MODEL_OPERATIONS` says how long it is.
@Suite(.mounting, .serialized) struct ModelTests {
  private static func number(_ variable: String) -> UInt64? {
    getenv(variable).flatMap { UInt64(String(cString: $0)) }
  }

  @Test(arguments: ["", "tunnel=off", "matching=caseless", "matching=exact,normalization=off"])
  func everyOperation_matchesModel(options: String) throws {
    // The same every time, so that what fails is what was changed; campaigns choose their own.
    let seed = Self.number("DISPLAYFS_MODEL_SEED") ?? 2
    let operations = Int(Self.number("DISPLAYFS_MODEL_OPERATIONS") ?? 2_500)
    let view = try MountedView(options)
    let model = Model(
      tunnelling: options != "tunnel=off",
      matching: options.contains("exact") ? .exact : options.contains("caseless") ? .caseless : .canonical,
      composes: !options.contains("normalization=off"))
    let run = ModelRun(view, model, seed: seed)
    do {
      for _ in 0..<operations { try run.step() }
      try run.compareTrees()
    } catch let deviation as ModelRun.Deviation {
      Issue.record("seed \(seed), \(options): \(deviation.text)\n\(run.recent.joined(separator: "\n"))")
    }
  }
}

/// A mount and the model of it, side by side.
final class ModelRun {
  struct Deviation: Error { let text: String }

  /// The operations so far, the last ones only.
  private(set) var recent: [String] = []

  private let view: MountedView
  private let model: Model
  private var random: SplitMix
  private var count = 0
  private var held: [(file: OpenFile, node: Model.Node)] = []

  init(_ view: MountedView, _ model: Model, seed: UInt64) {
    self.view = view
    self.model = model
    random = SplitMix(seed)
  }

  /// One random operation.
  func step() throws {
    count += 1
    let places = model.directories().filter { $0.view != nil }
    let (from, to) = (pick(places), pick(places))
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<18: try write(from, name(in: from.node))
    case 18..<24: try make(.symlink, from, name(in: from.node))
    case 24..<32: try make(.directory, from, name(in: from.node), hasRoom: places.count < 9)
    case 32..<40:
      let (old, new) = (name(in: from.node), name(in: to.node))
      try check(
        "link \(from.real)/\(old) -> \(to.real)/\(new)", model.link(old, in: from.node, to: new, in: to.node),
        in: to.real
      ) { Glibc.link(path(from, old), path(to, new)) }
    case 40..<50:
      let old = name(in: from.node)
      try check("unlink \(from.real)/\(old)", model.unlink(old, in: from.node), in: from.real) {
        Glibc.unlink(path(from, old))
      }
    case 50..<54:
      let old = name(in: from.node)
      try check("rmdir \(from.real)/\(old)", model.removeDirectory(old, in: from.node), in: from.real) {
        Glibc.rmdir(path(from, old))
      }
    case 54..<88: try rename(from, Int.random(in: 0..<2, using: &random) == 0 ? from : to)
    case 88..<97: try look(from, name(in: from.node))
    default: try useHeldFile()
    }
    if count % 20 == 0 { try compareTrees() }
  }

  // MARK: Operations

  private typealias Place = (node: Model.Node, real: String, view: String?)

  private func path(_ place: Place, _ name: String) -> String {
    at(place.view! == "" ? name : "\(place.view!)/\(name)")
  }

  private func at(_ path: String) -> String { view.at(Model.encoded(path)) }

  private func real(_ path: String) -> String { view.real(Model.encoded(path)) }

  private func write(_ place: Place, _ name: String) throws {
    let exclusive = Bool.random(using: &random)
    let content = "content \(count)"
    try check(
      "write \(place.real)/\(name)\(exclusive ? " O_EXCL" : "")",
      model.write(name, in: place.node, exclusive: exclusive, content: content), in: place.real
    ) {
      let flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | dfs_O_NOFOLLOW | (exclusive ? O_EXCL : 0)
      let descriptor = open(path(place, name), flags, 0o644)
      guard descriptor >= 0 else { return -1 }
      defer { close(descriptor) }
      return Glibc.write(descriptor, content, content.utf8.count) == content.utf8.count ? 0 : -1
    }
  }

  private func make(_ kind: Model.Node.Kind, _ place: Place, _ name: String, hasRoom: Bool = true) throws {
    guard hasRoom, place.real.split(separator: "/").count < 3 else { return }
    let node = Model.Node(kind, kind == .symlink ? "/nowhere/\(count)" : "")
    try check("make \(kind) \(place.real)/\(name)", model.make(node, name, in: place.node), in: place.real) {
      kind == .symlink
        ? Glibc.symlink(node.content, path(place, name)) : Glibc.mkdir(path(place, name), 0o755)
    }
  }

  private func rename(_ from: Place, _ to: Place) throws {
    let (old, new) = (name(in: from.node), name(in: to.node))
    let mode: Model.RenameMode = [.plain, .plain, .plain, .noReplace, .exchange].randomElement(
      using: &random)!
    let flags = mode == .plain ? 0 : mode == .exchange ? dfs_RENAME_EXCHANGE : dfs_RENAME_NOREPLACE
    try check(
      "rename \(mode) \(from.real)/\(old) -> \(to.real)/\(new)",
      model.rename(old, in: from.node, to: new, in: to.node, mode), in: to.real
    ) { dfs_renameat(AT_FDCWD, path(from, old), AT_FDCWD, path(to, new), flags) }
  }

  /// Opens and reads by any name, and keeps some files open.
  private func look(_ place: Place, _ name: String) throws {
    note("look \(place.real)/\(name)")
    let found = model.find(name, in: place.node)
    try compare(found, path(place, name))
    guard let found, found.node.kind == .file else { return }
    if held.count < 4 { held.append((try OpenFile(path(place, name), O_RDWR), found.node)) }
  }

  /// A file that is open stays the same whatever becomes of its names.
  private func useHeldFile() throws {
    guard !held.isEmpty else { return }
    let index = Int.random(in: 0..<held.count, using: &random)
    let (file, node) = held[index]
    note("use an open file of \(node.content)")
    guard file.text() == node.content else {
      throw Deviation(text: "open: \(file.text() ?? "?"), not \(node.content)")
    }
    node.content = "content through a descriptor \(count)"
    guard ftruncate(file.descriptor, 0) == 0, file.write(node.content, at: 0) == node.content.utf8.count
    else {
      throw Deviation(text: "an open file cannot be written: \(errno)")
    }
    if Bool.random(using: &random) { held.remove(at: index) }
  }

  private func check(
    _ what: String, _ outcomes: [Model.Outcome], in directory: String, _ operation: () -> CInt
  ) throws {
    note(what)
    let error = failure(operation)
    recent[recent.count - 1] += error.map { " = \($0.rawValue)" } ?? ""
    var possible = outcomes.filter { $0.error == error }
    if error == nil, possible.count > 1 {
      possible = possible.filter { outcome in
        outcome.made.map { isThere(real(directory.isEmpty ? $0 : "\(directory)/\($0)")) } ?? false
      }
    }
    guard let outcome = possible.first else {
      let expected = outcomes.map { "\($0.error?.description ?? "success") \($0.made ?? "")" }
      throw Deviation(text: "\(what): \(error?.description ?? "success"), expected \(expected)")
    }
    if error == nil { outcome.apply() }
  }

  private func note(_ text: String) {
    recent.append("\(count) \(text)")
    if recent.count > 60 { recent.removeFirst(20) }
  }

  // MARK: Comparing

  /// The backing tree has the model's names and contents, and the view lists what the model lists.
  func compareTrees() throws {
    for (node, real, path) in model.directories() {
      let names = view.realListing(Model.encoded(real))
      let expected = Set(node.children.keys.map { FileName(Model.encoded($0)) })
      if let difference = names.difference(from: expected) {
        throw Deviation(text: "backing /\(real): \(difference)")
      }
      for (name, child) in node.children where !child.isDirectory {
        try compareContent(child, self.real(real.isEmpty ? name : "\(real)/\(name)"))
      }
      guard let path else { continue }
      let listed = (namesAsListed(at(path)) ?? []).sorted()
      let listing = model.listing(of: node)
      if listed != listing.keys.map({ FileName(Model.encoded($0)) }).sorted() {
        throw Deviation(text: "view /\(path): \(listed), not \(listing.keys.sorted())")
      }
      for (name, found) in listing where Int.random(in: 0..<4, using: &random) == 0 {
        try compare(found, at(path.isEmpty ? name : "\(path)/\(name)"))
      }
    }
  }

  private func compare(_ found: Model.Found?, _ path: String) throws {
    guard let status = status(path) else {
      if found == nil, errno == ENOENT { return }
      throw Deviation(text: "\(path): errno \(errno), expected \(found?.real ?? "ENOENT")")
    }
    guard let found else { throw Deviation(text: "\(path) is there and should not") }
    if found.isPackageFile {
      guard status.isRegular else { throw Deviation(text: "\(path): a package that is no file") }
      let count = contents(path)?.count
      guard count == Int(status.st_size) else {
        throw Deviation(text: "\(path): \(status.st_size) bytes, read \(count ?? -1)")
      }
    } else if found.node.isDirectory {
      guard status.isDirectory else { throw Deviation(text: "\(path): no directory") }
    } else {
      try compareContent(found.node, path)
    }
  }

  private func compareContent(_ node: Model.Node, _ path: String) throws {
    let content: String?
    if node.kind == .symlink {
      var buffer = [UInt8](repeating: 0, count: 256)
      let count = buffer.withUnsafeMutableBytes { readlink(path, $0.baseAddress!, $0.count) }
      content = count < 0 ? nil : String(decoding: buffer.prefix(count), as: UTF8.self)
    } else {
      content = text(path)
    }
    guard content == node.content else {
      throw Deviation(text: "\(path): \(content ?? "errno \(errno)"), expected \(node.content)")
    }
  }

  // MARK: Chance

  private static let stems = ["a", "A", "<", ">", "photo", "v1.2", "b.c"]
  private static let extensions = ["", "", ".txt", ".txt", ".jpg", ".JPG", ".png", ".c", ".rtfd", ".rtfd"]

  /// A name that is there, by one of its names, or one that may not be.
  private func name(in directory: Model.Node) -> String {
    let reals = directory.children.keys.sorted()
    switch Int.random(in: 0..<8, using: &random) {
    case 0..<2 where !reals.isEmpty: return pick(reals)
    case 2..<5 where !reals.isEmpty: return model.displayName(pick(reals), in: directory)
    case 5: return "." + pick(Self.stems) + pick(Self.extensions)
    default: return pick(Self.stems.dropLast()) + pick(Self.extensions)
    }
  }

  private func pick<C: RandomAccessCollection>(_ choices: C) -> C.Element where C.Index == Int {
    choices.randomElement(using: &random)!
  }
}

/// A generator that gives the same numbers for the same seed (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", 2014).
struct SplitMix: RandomNumberGenerator {
  private var state: UInt64

  init(_ seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = (state ^ (state >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }
}
