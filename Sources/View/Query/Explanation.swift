import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// How the view shows an entry, and why.
public struct Explanation: Sendable {
  /// The name on the disk.
  public let realName: Name
  /// The absolute path in the backing tree, without symlinks in the directories.
  public var realPath: FilePath { FilePath(bytes: realPathBytes) }
  /// Kept as bytes: a listing of a million entries needs no path of most of them.
  package let realPathBytes: [UInt8]
  /// The name in the view; of a hidden entry, its real name.
  public let displayName: Name
  public let kind: EntryKind
  /// Whether the view does not list the entry.
  public let isHidden: Bool
  /// The rule that named or hid the entry, in English sentences.
  public private(set) var reason: String
  /// Whether it is shown under a localized name.
  public let isLocalized: Bool
  /// Whether it is shown under more of its real name than it would be if no other entry had the same claim.
  public let isContested: Bool

  package init(
    realName: Name, realPath: [UInt8], displayName: Name, kind: EntryKind, isHidden: Bool,
    isLocalized: Bool = false, isContested: Bool = false, reason: String
  ) {
    self.realName = realName
    realPathBytes = realPath
    self.displayName = displayName
    self.kind = kind
    self.isHidden = isHidden
    self.isLocalized = isLocalized
    self.isContested = isContested
    self.reason = reason
  }
}

extension Explanation {
  /// The same with one more sentence about it, if there is one.
  fileprivate func adding(_ sentence: String?) -> Explanation {
    var result = self
    if let sentence { result.reason += " " + sentence }
    return result
  }

  /// How `typed` leads to the entry: `exact` by its real name or display name; nil if it is equal to neither.
  package func comparison(with typed: Name) -> NameMatching? {
    NameMatching.allCases.first { matching in
      let form = matching.sharedForm(of: typed)
      return form == matching.sharedForm(of: realName) || form == matching.sharedForm(of: displayName)
    }
  }
}

extension View {
  /// How the view shows a node.
  ///
  /// - Throws: ESTALE when the node is not at its last known place any more: the kernel then looks the path up again, as the
  ///   dentry may have been stale all along. ENODATA for an open file without a name.
  package func explain(_ id: NodeID) throws(Errno) -> Explanation {
    guard id != NodeTable.root else {
      let path = try realPath(of: source.root)
      let name = Name(path.split(separator: 0x2f).last ?? [0x2f])
      return Explanation(
        realName: name, realPath: path, displayName: name, kind: .directory, isHidden: false,
        reason: "It is the root of the view.")
    }
    guard let link = nodes.link(of: id), let handle = try? directory(link.parent),
      let status = link.name.withPointer({ try? handle.status($0) }), link.matches(status)
    else {
      let open = openNodes.file(of: id).flatMap { try? fileStatus($0.descriptor.rawValue) }
      throw open?.st_nlink == 0 ? Errno(rawValue: ENODATA) : .staleNFSFileHandle
    }
    let realName = link.name.name
    let path = try realPath(of: handle)
    guard !isPlainMirror else {
      return Self.plain(realName, FileType(mode: status.st_mode), in: path)
    }
    let view = try directoryView(link.parent)
    let explanation = try view.withCurrent { (projection) throws(Errno) in
      guard let slot = projection.slot(realName: realName.bytes.span), let child = projection.child(at: slot)
      else {
        throw .noSuchFileOrDirectory
      }
      return Self.explanation(of: child, projection, slot, in: path, view.site.rules)
    }
    return explanation.adding(aliasExplanation(of: explanation, in: link.parent, handle))
  }

  private func aliasExplanation(
    of entry: Explanation, in parent: NodeID, _ handle: DirectoryHandle
  ) -> String? {
    guard options.aliases == .symlink, entry.kind == .alias || entry.kind == .file, !entry.isHidden else {
      return nil
    }
    return aliasExplanation(of: entry.realName, in: parent, handle)
  }

  /// Whether the mount shows a node as a directory.
  package func isDirectory(_ id: NodeID) throws(Errno) -> Bool {
    try attributes(id).st_mode & S_IFMT == S_IFDIR
  }

  /// All entries of a directory of the view, hidden ones included, each explained.
  package func explainAll(in id: NodeID) throws(Errno) -> [Explanation] {
    let handle = try directory(id)
    let path = try realPath(of: handle)
    if isPlainMirror {
      var entries: [Explanation] = []
      let readable = try handle.directory.openForReading()
      try forEachEntry(of: readable.rawValue) { (entry) throws(Errno) in
        let type =
          entry.type == .unknown ? FileType(mode: try handle.status(entry.cName).st_mode) : entry.type
        entries.append(Self.plain(Name(entry.name), type, in: path))
      }
      return entries
    }
    let view = try directoryView(id)
    let entries = try view.withCurrent { (projection) throws(Errno) -> [Explanation] in
      (0..<projection.slotLimit).compactMap { slot in
        guard let child = projection.child(at: slot) else { return nil }
        return Self.explanation(of: child, projection, slot, in: path, view.site.rules)
      }
    }
    guard options.aliases == .symlink else { return entries }
    return entries.map { $0.adding(aliasExplanation(of: $0, in: id, handle)) }
  }

  /// - Parameter directory: the absolute path of the backing directory.
  private static func explanation(
    of child: Projection.Child, _ projection: borrowing Projection, _ slot: Projection.Slot,
    in directory: [UInt8],
    _ rules: DirectoryRules
  ) -> Explanation {
    let rung = projection.rung(of: slot)
    let verdict = rules.verdict(on: child.realName.bytes.span, isDirectory: child.kind.isDirectory)
    let composed = child.hidden == nil && projection.composes ? child.realName.composed : child.realName
    let first: Projection.Rung =
      child.localized != nil
      ? .localized
      : child.stemLength != nil ? .extensionHidden : composed != child.realName ? .composed : .realName
    return Explanation(
      realName: child.realName, realPath: path(of: child.realName, in: directory),
      displayName: projection.displayName(at: slot), kind: child.kind, isHidden: child.hidden != nil,
      isLocalized: child.hidden == nil && rung == .localized,
      isContested: child.hidden == nil && rung != first,
      reason: ([reason(child, rung, composed)] + configured(child, rung, verdict)).joined(separator: " "))
  }

  private static func plain(_ name: Name, _ type: FileType, in directory: [UInt8]) -> Explanation {
    Explanation(
      realName: name, realPath: path(of: name, in: directory), displayName: name, kind: kind(type),
      isHidden: false,
      reason: "The profile none shows everything as it is.")
  }

  private static func path(of name: Name, in directory: [UInt8]) -> [UInt8] {
    if name == ContainerData.realName { return directory }
    return (directory == [0x2f] ? [] : directory) + [0x2f] + name.bytes
  }

  /// The effects of the user's own rules, as sentences.
  private static func configured(_ child: Projection.Child, _ rung: Projection.Rung, _ verdict: RuleVerdict)
    -> [String]
  {
    var sentences: [String] = []
    func add(_ origin: String?, _ what: String) {
      if let origin { sentences.append("\(what) by the rule in \(origin).") }
    }
    if child.hidden == .configured || child.hidden == nil {
      add(verdict.isHidden?.origin, child.hidden == nil ? "It is listed" : "It is hidden")
    }
    if child.hidden == nil {
      if rung == .localized { add(verdict.names?.origin, "It has this name") }
      let isHidden = verdict.fileExtension?.value == .hide
      if rung != .localized {
        add(verdict.fileExtension?.origin, "The extension is \(isHidden ? "hidden" : "kept")")
      }
    }
    if let kind = verdict.kind { add(kind.origin, "It is taken for a \(kind.value)") }
    if let isReadOnly = verdict.isReadOnly, isReadOnly.value { add(isReadOnly.origin, "It is read-only") }
    return sentences
  }

  private static func reason(_ child: Projection.Child, _ rung: Projection.Rung, _ composed: Name) -> String {
    if let hidden = child.hidden { return "Hidden. " + hidden.explanation }
    if child.realName == ContainerData.realName {
      return "It is all that an application keeps in its iCloud container beside the documents."
    }
    let contested =
      "but another entry of this directory has that name or would show it, so this one keeps more of its own."
    switch rung {
    case .localized: return "Shown under its localized name."
    case .extensionHidden:
      if let localized = child.localized {
        return "Its localized name is \(localized), \(contested) Its extension is hidden."
      }
      return "Its extension is hidden."
    case .composed, .realName:
      let shown =
        rung == .composed ? " Its name is decomposed, and shown composed (Unicode normalization form C)." : ""
      if let localized = child.localized { return "Its localized name is \(localized), \(contested)\(shown)" }
      if let stem = child.stemLength {
        return
          "Without its extension it would be \(Name(child.realName.bytes.prefix(stem))), \(contested)\(shown)"
      }
      if !shown.isEmpty { return String(shown.dropFirst()) }
      if composed != child.realName { return "Composed it would be \(composed), \(contested)" }
      return "Shown under its real name."
    }
  }

  private static func kind(_ type: FileType) -> EntryKind {
    switch type {
    case .regular: .file
    case .directory: .directory
    case .symlink: .symlink
    default: .other
    }
  }

  private func realPath(of handle: DirectoryHandle) throws(Errno) -> [UInt8] {
    try Directory(descriptor: AT_FDCWD).symlinkTarget("/proc/self/fd/\(handle.directory.descriptor)")
  }
}

extension EntryKind {
  /// The word for the kind in the output of programs and in `user.displayfs.kind`.
  package var word: String {
    switch self {
    case .file: "file"
    case .directory: "directory"
    case .package: "package"
    case .symlink, .alias: "symlink"
    case .other: "special"
    }
  }
}
