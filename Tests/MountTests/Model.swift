import Glibc
import SystemPackage

/// A slow reference model of a small tree and its view: every query looks at all siblings, and only the necessary state is
/// remembered. All names are ASCII; ``encoded(_:)`` puts a composed and a decomposed letter in the place of two signs.
///
/// Returns what each operation through a mount must do. The rules of listing, resolving and changing are those of the view's
/// contract. The errors that the kernel returns before it sends a request come from the man pages of rename(2), link(2) and the
/// like.
final class Model {
  final class Node {
    enum Kind { case file, symlink, directory }

    let kind: Kind
    /// What a file holds, or where a symlink leads.
    var content: String
    var children: [String: Node] = [:]
    /// Where a directory is. Files may have several names and are found from their directories.
    weak var parent: Node?
    var name = ""

    init(_ kind: Kind, _ content: String = "") { (self.kind, self.content) = (kind, content) }

    var isDirectory: Bool { kind == .directory }
  }

  /// What a name stands for.
  struct Found {
    let node: Node
    let real: String
    let byDisplayName: Bool
    /// A package by its display name: a regular file to programs.
    let isPackageFile: Bool
    /// The extension that the name leaves off.
    var hiddenExtension: String?
    /// Whether the name is only equal to one of the entry's.
    var isMatch = false

    var actsAsDirectory: Bool { node.isDirectory && !isPackageFile }
  }

  /// One thing that an operation may do: fail, or change the tree.
  struct Outcome {
    var error: Errno? = nil
    /// The real name that is created. It distinguishes two outcomes that succeed.
    var made: String? = nil
    var apply: () -> Void = {}
  }

  let root = Node(.directory)
  private var tunnel: ModelTunnel

  private let matching: Matching
  private let composes: Bool

  enum Matching { case exact, canonical, caseless }

  /// - Parameter tunnelling: whether the mount remembers names.
  init(tunnelling: Bool, matching: Matching, composes: Bool) {
    tunnel = ModelTunnel(isOn: tunnelling)
    (self.matching, self.composes) = (matching, composes)
  }

  // MARK: Equal names

  /// A name or path as it is on the disk.
  static func encoded(_ name: String) -> String {
    var text = String.UnicodeScalarView()
    for scalar in name.unicodeScalars {
      switch scalar {
      case "<": text.append("\u{e9}")
      case ">": text.append(contentsOf: "e\u{301}".unicodeScalars)
      default: text.append(scalar)
      }
    }
    return String(text)
  }

  private func composed(_ name: String) -> String {
    composes ? String(name.map { $0 == ">" ? "<" : $0 }) : name
  }

  private static func caseless(_ name: String) -> String {
    String(name.lowercased().map { $0 == ">" ? "<" : $0 })
  }

  /// The form that equal names share; nil for a name that is compared by its bytes.
  private func form(_ name: String) -> String? {
    switch matching {
    case .exact: nil
    case .canonical:
      name.contains { $0 == "<" || $0 == ">" } ? String(name.map { $0 == ">" ? "<" : $0 }) : nil
    case .caseless: Self.caseless(name)
    }
  }

  /// Equal names have one memory in the tunnel.
  private func key(_ name: String) -> String { form(name) ?? name }

  /// The real names of the children that a name is equal to.
  private func matches(_ name: String, in directory: Node) -> [String] {
    guard let form = form(name) else { return [] }
    return directory.children.keys.filter { real in
      self.form(real) == form || !isHidden(real) && self.form(displayName(real, in: directory)) == form
    }
  }

  private func hasMatch(_ name: String, in directory: Node, besides others: [String] = []) -> Bool {
    !Set(matches(name, in: directory)).subtracting(others).isEmpty
  }

  // MARK: Names

  /// The extensions that the tests use and that say what a file is, and those of them that are hidden on files.
  private static let known: Set<String> = ["txt", "jpg", "png", "c", "rtfd"]
  private static let hiddenOnFiles: Set<String> = ["txt", "jpg", "png"]

  /// The name before the extension, and the extension in lower case without its period.
  private static func split(_ name: String) -> (stem: String, ext: String)? {
    guard let dot = name.lastIndex(of: "."), dot > name.startIndex else { return nil }
    let ext = name[name.index(after: dot)...]
    return ext.isEmpty ? nil : (String(name[..<dot]), ext.lowercased())
  }

  private static func hasKnownExtension(_ name: String) -> Bool {
    split(name).map { known.contains($0.ext) } ?? false
  }

  func isPackage(_ directory: Node) -> Bool {
    guard directory.isDirectory, let parent = directory.parent, !isInsidePackage(parent) else { return false }
    return Self.split(directory.name)?.ext == "rtfd"
  }

  /// Whether what a directory holds is shown as it is.
  private func isInsidePackage(_ directory: Node) -> Bool {
    sequence(first: directory, next: \.parent).contains { Self.split($0.name)?.ext == "rtfd" }
  }

  private func isHidden(_ name: String) -> Bool { name.hasPrefix(".") }

  /// The name without the extension, if that is hidden unless others want the name.
  private func stem(_ name: String, in directory: Node) -> String? {
    guard !isHidden(name), !isInsidePackage(directory), let child = directory.children[name],
      let (stem, ext) = Self.split(name), !Self.hasKnownExtension(stem)
    else { return nil }
    return (child.isDirectory ? ext == "rtfd" : Self.hiddenOnFiles.contains(ext)) ? composed(stem) : nil
  }

  /// The names but for the real one that a child would like to be listed under, the best first.
  private func candidates(_ name: String, in directory: Node) -> [String] {
    if isHidden(name) || isInsidePackage(directory) { return [] }
    let whole = composed(name)
    return [stem(name, in: directory), whole == name ? nil : whole].compactMap(\.self)
  }

  /// The name that a visible child is listed under.
  func displayName(_ name: String, in directory: Node) -> String {
    candidates(name, in: directory).first { wish in
      !directory.children.keys.contains { other in
        other != name && (other == wish || candidates(other, in: directory).contains(wish))
      }
    } ?? name
  }

  func find(_ name: String, in directory: Node) -> Found? {
    for (real, child) in directory.children where !isHidden(real) && displayName(real, in: directory) == name
    {
      return shown(child, real, in: directory)
    }
    if let child = directory.children[name] {
      return Found(node: child, real: name, byDisplayName: false, isPackageFile: false)
    }
    let matches = matches(name, in: directory)
    guard matches.count == 1, let child = directory.children[matches[0]] else { return nil }
    let isShown = !isHidden(matches[0]) && form(displayName(matches[0], in: directory)) == form(name)
    var found =
      isShown
      ? shown(child, matches[0], in: directory)
      : Found(node: child, real: matches[0], byDisplayName: false, isPackageFile: false)
    found.isMatch = true
    return found
  }

  /// A child by its display name.
  private func shown(_ child: Node, _ real: String, in directory: Node) -> Found {
    let stem = stem(real, in: directory)
    let hidesExtension = stem != nil && displayName(real, in: directory) == stem
    return Found(
      node: child, real: real, byDisplayName: true, isPackageFile: isPackage(child),
      hiddenExtension: hidesExtension ? String(real.dropFirst(stem!.count)) : nil)
  }

  /// What a directory lists, each name with what it is.
  func listing(of directory: Node) -> [String: Found] {
    var result: [String: Found] = [:]
    for (real, child) in directory.children where !isHidden(real) {
      result[displayName(real, in: directory)] = shown(child, real, in: directory)
    }
    return result
  }

  /// The directories, the root first, with a path through the view for those that have one: where a package's real
  /// name is displayed, its inside has none.
  func directories() -> [(node: Node, real: String, view: String?)] {
    var result: [(node: Node, real: String, view: String?)] = [(root, "", "")]
    var index = 0
    while index < result.count {
      let (directory, real, view) = result[index]
      index += 1
      for (name, child) in directory.children.sorted(by: { $0.key < $1.key }) where child.isDirectory {
        let isReachable = view != nil && find(name, in: directory)?.isPackageFile == false
        result.append(
          (
            child, real.isEmpty ? name : "\(real)/\(name)",
            isReachable ? (view! == "" ? name : "\(view!)/\(name)") : nil
          ))
      }
    }
    return result
  }

  /// All names of a file that is no directory.
  private func names(of node: Node) -> [(directory: Node, real: String)] {
    directories().flatMap { directory in
      directory.node.children.filter { $0.value === node }.map { (directory.node, $0.key) }
    }
  }

  // MARK: Changes

  /// A regular file that is opened or created, and written.
  func write(_ name: String, in directory: Node, exclusive: Bool, content: String) -> [Outcome] {
    if let found = find(name, in: directory) {
      if exclusive { return [Outcome(error: .fileExists)] }
      if found.isPackageFile { return [Outcome(error: .permissionDenied)] }
      switch found.node.kind {
      case .file: return [Outcome { found.node.content = content }]
      case .symlink: return [Outcome(error: .tooManySymbolicLinkLevels)]
      case .directory: return [Outcome(error: .isDirectory)]
      }
    }
    return realNames(forNew: name, in: directory).map { real in
      Outcome(made: real) { [self] in
        directory.children[real] = Node(.file, content)
        if tunnel.recall(key(name), in: directory).real == real { tunnel.forget(key(name), in: directory) }
      }
    }
  }

  /// The real names that a regular file may get which comes under a name that is free.
  private func realNames(forNew name: String, in directory: Node) -> [String] {
    let (remembered, isSure) = tunnel.recall(key(name), in: directory)
    let isWanted = directory.children.keys.contains { candidates($0, in: directory).contains(name) }
    guard let remembered, directory.children[remembered] == nil, !hasMatch(remembered, in: directory),
      !isWanted,
      !hasMatch(name, in: directory), !isInsidePackage(directory)
    else {
      return [name]
    }
    return isSure ? [remembered] : [remembered, name]
  }

  func make(_ node: Node, _ name: String, in directory: Node) -> [Outcome] {
    if find(name, in: directory) != nil { return [Outcome(error: .fileExists)] }
    return [Outcome(made: name) { [self] in put(node, name, in: directory) }]
  }

  func unlink(_ name: String, in directory: Node) -> [Outcome] {
    guard let found = find(name, in: directory) else { return [Outcome(error: .noSuchFileOrDirectory)] }
    if found.actsAsDirectory { return [Outcome(error: .isDirectory)] }
    return [
      Outcome { [self] in
        remember(found, name, in: directory)
        directory.children[found.real] = nil
      }
    ]
  }

  func removeDirectory(_ name: String, in directory: Node) -> [Outcome] {
    guard let found = find(name, in: directory) else { return [Outcome(error: .noSuchFileOrDirectory)] }
    guard found.actsAsDirectory else { return [Outcome(error: .notDirectory)] }
    guard found.node.children.isEmpty else { return [Outcome(error: .directoryNotEmpty)] }
    return [Outcome { directory.children[found.real] = nil }]
  }

  /// A hard link. The request does not contain the name by which the file was found: any of its names may decide whether an
  /// extension is kept.
  func link(_ name: String, in directory: Node, to typed: String, in target: Node) -> [Outcome] {
    guard let found = find(name, in: directory) else { return [Outcome(error: .noSuchFileOrDirectory)] }
    if find(typed, in: target) != nil { return [Outcome(error: .fileExists)] }
    if found.node.isDirectory { return [Outcome(error: .notPermitted)] }
    var reals = [typed]
    if let hidden = found.hiddenExtension {
      reals = [Self.name(typed, keeping: hidden)]
    } else if found.node.kind == .file {
      reals = realNames(forNew: typed, in: target)
    }
    return reals.map { real in
      if real != typed, target.children[real] != nil || hasMatch(real, in: target) {
        return Outcome(error: .fileExists)
      }
      return Outcome(made: real) { [self] in
        target.children[real] = found.node
        if tunnel.recall(key(typed), in: target).real == real { tunnel.forget(key(typed), in: target) }
      }
    }
  }

  enum RenameMode { case plain, noReplace, exchange }

  func rename(
    _ name: String, in directory: Node, to typed: String, in target: Node, _ mode: RenameMode
  ) -> [Outcome] {
    outcomes(of: name, in: directory, to: typed, in: target, find(typed, in: target), mode)
  }

  private func outcomes(
    of name: String, in directory: Node, to typed: String, in target: Node, _ existing: Found?,
    _ mode: RenameMode
  ) -> [Outcome] {
    func refused(_ error: Errno) -> [Outcome] { [Outcome(error: error)] }
    guard let source = find(name, in: directory) else { return refused(.noSuchFileOrDirectory) }
    if mode == .noReplace, existing != nil { return refused(.fileExists) }
    if mode == .exchange, existing == nil { return refused(.noSuchFileOrDirectory) }
    // Not into itself, and not in place of what it is in.
    if source.actsAsDirectory, isSame(source.node, orAbove: target), directory !== target {
      return refused(.invalidArgument)
    }
    if let existing, existing.actsAsDirectory, isSame(existing.node, orAbove: directory), directory !== target
    {
      return refused(mode == .exchange ? .invalidArgument : .directoryNotEmpty)
    }
    if let existing, existing.node === source.node, existing.isPackageFile == source.isPackageFile {
      return [Outcome()]
    }
    if mode == .exchange { return exchange(source, name, in: directory, existing!, in: target) }
    if let existing {
      if source.actsAsDirectory, !existing.actsAsDirectory { return refused(.notDirectory) }
      if !source.actsAsDirectory, existing.actsAsDirectory { return refused(.isDirectory) }
    }
    let reals: [String]
    let isComposed = source.byDisplayName && !source.isMatch && composed(source.real) != source.real
    if isComposed, name != source.real, directory !== target, existing == nil, typed == name {
      // Moved and not renamed.
      reals = [source.real]
    } else if let hidden = source.hiddenExtension {
      reals = [Self.name(typed, keeping: hidden)]
    } else if let existing {
      // A file does not get a package's name.
      reals = [existing.isPackageFile && !source.isPackageFile ? typed : existing.real]
    } else {
      reals = source.node.kind == .file ? realNames(forNew: typed, in: target) : [typed]
    }
    return reals.map { move(source, name, in: directory, to: $0, typed: typed, existing, in: target) }
  }

  private func move(
    _ source: Found, _ name: String, in directory: Node, to real: String, typed: String, _ existing: Found?,
    in target: Node
  ) -> Outcome {
    // Refused before anything else: more would go than was named.
    if let existing, existing.isPackageFile, isSame(existing.node, orAbove: directory) {
      return Outcome(error: .invalidArgument)
    }
    let isInPlace = existing.map { Self.caseless($0.real) == Self.caseless(real) } ?? false
    // An entry is replaced only if its name was typed.
    let own = (directory === target ? [source.real] : []) + [existing?.real].compactMap(\.self)
    if !isInPlace, real != typed || existing != nil,
      target.children[real] != nil || hasMatch(real, in: target, besides: own)
    {
      return Outcome(error: .fileExists)
    }
    if let existing, existing.actsAsDirectory, !existing.node.children.isEmpty {
      return Outcome(error: .directoryNotEmpty)
    }
    if source.node.isDirectory, isSame(source.node, orAbove: target) {
      return Outcome(error: .invalidArgument)
    }
    if let existing, existing.node.isDirectory, isSame(existing.node, orAbove: directory) {
      return Outcome(error: .invalidArgument)
    }
    let made = isInPlace ? existing!.real : real
    return Outcome(made: made) { [self] in
      let isRemembered = existing == nil && tunnel.recall(key(typed), in: target).real == made
      directory.children[source.real] = nil
      if let existing { target.children[existing.real] = nil }
      put(source.node, made, in: target)
      if isRemembered { tunnel.forget(key(typed), in: target) }
      remember(source, name, in: directory)
    }
  }

  private func exchange(
    _ source: Found, _ name: String, in directory: Node, _ existing: Found, in target: Node
  ) -> [Outcome] {
    if source.node === existing.node { return [Outcome()] }
    // A package is recognized by its name: it can be exchanged only with another package.
    if source.isPackageFile != existing.isPackageFile { return [Outcome(error: .invalidArgument)] }
    if source.node.isDirectory, isSame(source.node, orAbove: target) {
      return [Outcome(error: .invalidArgument)]
    }
    if existing.node.isDirectory, isSame(existing.node, orAbove: directory) {
      return [Outcome(error: .invalidArgument)]
    }
    return [
      Outcome { [self] in
        put(existing.node, source.real, in: directory)
        put(source.node, existing.real, in: target)
      }
    ]
  }

  /// The real name for a name typed for an entry with a hidden extension.
  private static func name(_ typed: String, keeping hidden: String) -> String {
    let doubles = typed.count > hidden.count && typed.lowercased().hasSuffix(hidden.lowercased())
    return typed.hasPrefix(".") || doubles || hasKnownExtension(typed) ? typed : typed + hidden
  }

  private func put(_ node: Node, _ name: String, in directory: Node) {
    directory.children[name] = node
    if node.isDirectory { (node.parent, node.name) = (directory, name) }
  }

  private func remember(_ found: Found, _ name: String, in directory: Node) {
    guard found.node.kind == .file, found.byDisplayName || found.isMatch, name != found.real else { return }
    tunnel.remember(key(name), found.real, in: directory)
  }

  private func isSame(_ node: Node, orAbove other: Node) -> Bool {
    sequence(first: other, next: \.parent).contains { $0 === node }
  }
}

/// What the mount remembers of display names that went away, for 15 seconds and 4096 names.
struct ModelTunnel {
  private struct Key: Hashable {
    let directory: ObjectIdentifier
    let display: String
  }

  private struct Memory {
    let real: String
    let since: ContinuousClock.Instant
    let number: Int
    /// Kept, so that its identity is not used again.
    let directory: Model.Node
  }

  let isOn: Bool
  private var memories: [Key: Memory] = [:]
  private var number = 0

  init(isOn: Bool) { self.isOn = isOn }

  mutating func remember(_ display: String, _ real: String, in directory: Model.Node) {
    guard isOn else { return }
    number += 1
    memories[Key(directory: ObjectIdentifier(directory), display: display)] =
      Memory(real: real, since: .now, number: number, directory: directory)
  }

  mutating func forget(_ display: String, in directory: Model.Node) {
    memories[Key(directory: ObjectIdentifier(directory), display: display)] = nil
  }

  /// The real name behind a display name, and whether it is certain that the mount's clock says so too.
  func recall(_ display: String, in directory: Model.Node) -> (real: String?, isSure: Bool) {
    guard let memory = memories[Key(directory: ObjectIdentifier(directory), display: display)] else {
      return (nil, true)
    }
    let age = ContinuousClock.now - memory.since
    if age > .seconds(16) || number - memory.number > 4200 { return (nil, true) }
    return (memory.real, age < .seconds(14) && number - memory.number < 3900)
  }
}
