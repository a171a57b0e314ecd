import BackingTree
import DisplayNames
import SystemPackage

/// What an entry is to the program that named it.
public enum ApparentType: Sendable {
  /// A regular file.
  case file
  /// A symlink, FIFO, socket or device.
  case special
  /// A directory, or a package by its real name.
  case directory
  /// A package by its display name: a regular file to the program, a directory in the backing tree.
  case package

  var isBackedByDirectory: Bool { self == .directory || self == .package }
}

/// Which of an entry's names led to it.
public enum Addressing: Sendable {
  /// The real name, or a display name equal to it.
  case realName
  /// A display name that is the real name without its extension.
  case hiddenExtension
  /// A localized display name.
  case localized
}

/// The entry that is renamed or linked.
public struct RenameSource: Sendable {
  public let realName: Name
  public let displayName: Name
  public let addressing: Addressing
  public let facet: ApparentType

  public init(realName: Name, displayName: Name, addressing: Addressing, facet: ApparentType = .file) {
    self.realName = realName
    self.displayName = displayName
    self.addressing = addressing
    self.facet = facet
  }

  /// What the display name leaves off, its period included.
  var hiddenExtension: ArraySlice<UInt8> { realName.bytes.dropFirst(displayName.bytes.count) }

  /// A display name that is not the beginning of the real name hides no extension: it can only be a localized one.
  var effectiveAddressing: Addressing {
    guard addressing == .hiddenExtension else { return addressing }
    let isPrefix =
      realName.bytes.starts(with: displayName.bytes) && hiddenExtension.first == UInt8(ascii: ".")
    return isPrefix ? .hiddenExtension : .localized
  }

  /// Whether `typed` is one of the names the entry has already, so that moving it there edits neither.
  func keepsName(_ typed: Name) -> Bool { typed == displayName || typed == realName }
}

/// The name that the entry shall have, and what is there now.
public struct RenameTarget: Sendable {
  /// The entry that the typed name resolves to.
  public struct Existing: Sendable {
    public let realName: Name
    /// Whether it is the very file that is renamed: the same entry by its other name, or another hard link of it.
    public let isSource: Bool
    public let facet: ApparentType

    public init(realName: Name, isSource: Bool = false, facet: ApparentType = .file) {
      self.realName = realName
      self.isSource = isSource
      self.facet = facet
    }
  }

  public let typed: Name
  public let existing: Existing?
  /// Whether source and target are in one directory.
  public let sameDirectory: Bool
  /// The real name that went away from under `typed` a moment ago (`Tunnel`).
  public let remembered: Name?

  public init(typed: Name, existing: Existing? = nil, sameDirectory: Bool = true, remembered: Name? = nil) {
    self.typed = typed
    self.existing = existing
    self.sameDirectory = sameDirectory
    self.remembered = remembered
  }
}

/// What a rename in the view does to the real names: the view's contract on renaming, as a pure function.
///
/// In every case `from` is a real name in the source's directory and all others are real names in the target's. A plan
/// never replaces or removes an entry other than the one that the typed name resolves to: a real name that nobody
/// typed and that is taken gives EEXIST, as the Finder says "the name is already taken". Every plan is safe to stop
/// after any of its steps: what was to be moved and what was to go are both there, or the move is done.
public enum RenamePlan: Equatable, Sendable {
  /// The entry has that name already: success.
  case nothing
  case refuse(Errno)
  /// One renameat2; with `exclusive`, RENAME_NOREPLACE.
  case move(from: Name, to: Name, exclusive: Bool)
  /// A move with RENAME_NOREPLACE, after which the entry that had the typed name is removed; the move is taken back
  /// when that fails, as it does for a directory that is not empty (ENOTEMPTY).
  case moveThenRemove(from: Name, to: Name, remove: Name)
  /// RENAME_EXCHANGE, after which what is now `from` is removed: a directory and a file, or a directory that is not
  /// empty, cannot replace each other.
  case exchangeThenRemove(from: Name, to: Name)
  /// RENAME_EXCHANGE: the contents change places, both real names stay.
  case exchange(from: Name, with: Name)

  /// The real name that the entry has afterwards; nil when nothing moves, or two entries change places.
  var newName: Name? {
    switch self {
    case .nothing, .refuse, .exchange: nil
    case .move(_, let to, _), .moveThenRemove(_, let to, _), .exchangeThenRemove(_, let to): to
    }
  }

  /// - Returns: among the refusals, EPERM for another name for a localized one, EEXIST as described above or
  ///   with `noReplace`, ENOENT for an exchange with nothing, ENAMETOOLONG for a result of more than 255 bytes, EISDIR
  ///   and ENOTDIR as rename(2) has them, EINVAL for both flags at once and for exchanging a package with anything else.
  public static func plan(
    _ source: RenameSource, to target: RenameTarget, flags: RenameFlags = [], in directory: DestinationFacts
  ) -> RenamePlan {
    if flags.contains(.exchange) {
      return flags.contains(.noReplace) ? .refuse(.invalidArgument) : exchange(source, target)
    }
    if let existing = target.existing {
      // The kernel's order: RENAME_NOREPLACE is refused before it is seen that both names are one file.
      if flags.contains(.noReplace) { return .refuse(.fileExists) }
      if existing.isSource { return .nothing }
      if existing.facet == .directory, source.facet != .directory { return .refuse(.isDirectory) }
      if existing.facet != .directory, source.facet == .directory { return .refuse(.notDirectory) }
    }
    let name: Name
    switch source.effectiveAddressing {
    case .realName:
      name = target.nameForRealName(of: source, in: directory)
    case .hiddenExtension:
      name = target.typed.carrying(source.hiddenExtension, unless: directory.hasKnownExtension)
    case .localized:
      guard source.keepsName(target.typed) else { return .refuse(.notPermitted) }
      name = source.realName
    }
    guard name.fits else { return .refuse(.fileNameTooLong) }
    if target.sameDirectory, name == source.realName {
      // Only a target that went stale between resolving and planning gets here with something to replace.
      return target.existing == nil ? .nothing : .refuse(.fileExists)
    }
    if let existing = target.existing { return replace(existing, by: source, named: name, in: directory) }
    if name != target.typed, directory.holds(name) { return .refuse(.fileExists) }
    // Where the backing tree folds case, RENAME_NOREPLACE would find the source in the way of its own new spelling.
    let isOwnInOtherCase = target.sameDirectory && name.equalsIgnoringCase(source.realName)
    let exclusive = flags.contains(.noReplace) || (name != target.typed && !isOwnInOtherCase)
    return .move(from: source.realName, to: name, exclusive: exclusive)
  }

  private static func exchange(_ source: RenameSource, _ target: RenameTarget) -> RenamePlan {
    guard let existing = target.existing else { return .refuse(.noSuchFileOrDirectory) }
    if existing.isSource { return .nothing }
    // Its extension is what makes a directory a package: under the other's name it would be a plain directory.
    guard (source.facet == .package) == (existing.facet == .package) else { return .refuse(.invalidArgument) }
    return .exchange(from: source.realName, with: existing.realName)
  }

  private static func replace(
    _ existing: RenameTarget.Existing, by source: RenameSource, named name: Name,
    in directory: DestinationFacts
  ) -> RenamePlan {
    // `photo.JPG` is as good a name for a JPEG as `photo.jpg`, and where the backing tree folds case it is the same.
    guard name.equalsIgnoringCase(existing.realName) else {
      if directory.holds(name) { return .refuse(.fileExists) }
      return .moveThenRemove(from: source.realName, to: name, remove: existing.realName)
    }
    return source.facet == .package || existing.facet == .package
      ? .exchangeThenRemove(from: source.realName, to: existing.realName)
      : .move(from: source.realName, to: existing.realName, exclusive: false)
  }
}

extension RenameTarget {
  /// The name that the target has already; else the typed name, or for a regular file the one that is remembered for it.
  ///
  /// A file does not get a package's name: its extension would make the file pass for one, and it would not be seen
  /// under the name that was typed.
  fileprivate func nameForRealName(of source: RenameSource, in directory: DestinationFacts) -> Name {
    if let existing {
      return existing.facet == .package && source.facet != .package ? typed : existing.realName
    }
    return source.facet == .file ? directory.remembered(remembered, for: typed) ?? typed : typed
  }
}
