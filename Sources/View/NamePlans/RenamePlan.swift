import BackingTree
import DisplayNames
import SystemPackage

/// The type of an entry as seen by the client that named it.
package enum ApparentType: Sendable {
  /// A regular file.
  case file
  /// A symlink, FIFO, socket or device.
  case special
  /// A directory, or a package by its real name.
  case directory
  /// A package by its display name: a regular file to the client, a directory in the backing tree.
  case package

  var isBackedByDirectory: Bool { self == .directory || self == .package }
}

/// Which kind of an entry's names led to it.
package enum Addressing: Sendable {
  /// The real name, or a display name that is equal to it or is its composed form.
  case realName
  /// A display name that is the real name without its extension.
  case hiddenExtension
  /// A localized display name.
  case localized
}

/// The entry that is renamed or linked.
package struct RenameSource: Sendable {
  package let realName: Name
  package let displayName: Name
  package let addressing: Addressing
  package let apparentType: ApparentType
  /// The length of the real name without the extension that is hidden, in bytes; nil where the display name tells it. A composed
  /// display name does not, nor does a name that is only equal to it.
  package let stemLength: Int?
  /// Whether the real name is decomposed, and the display name shows it composed.
  package let isComposed: Bool

  package init(
    realName: Name, displayName: Name, addressing: Addressing, apparentType: ApparentType = .file,
    stemLength: Int? = nil, isComposed: Bool = false
  ) {
    self.realName = realName
    self.displayName = displayName
    self.addressing = addressing
    self.apparentType = apparentType
    self.stemLength = stemLength
    self.isComposed = isComposed
  }

  /// The part of the real name that the display name leaves out, including the period.
  var hiddenExtension: ArraySlice<UInt8> { realName.bytes.dropFirst(stemLength ?? displayName.bytes.count) }

  /// A display name that is not a prefix of the real name hides no extension, so it can only be a localized name.
  var effectiveAddressing: Addressing {
    guard addressing == .hiddenExtension, stemLength == nil else { return addressing }
    let isPrefix =
      realName.bytes.starts(with: displayName.bytes) && hiddenExtension.first == UInt8(ascii: ".")
    return isPrefix ? .hiddenExtension : .localized
  }

  /// Whether `typed` is one of the names that the entry already has. A move to such a name changes neither of them.
  func alreadyHasName(_ typed: Name) -> Bool { typed == displayName || typed == realName }

  /// Whether the entry only goes to another directory, under its composed display name. The client has not edited that name, so
  /// the bytes of the real name stay.
  func keepsDecomposedName(movedTo target: RenameTarget) -> Bool {
    isComposed && !target.sameDirectory && target.existing == nil && target.typed == displayName
  }
}

/// The requested name, and the entry that has it now.
package struct RenameTarget: Sendable {
  /// The entry that the typed name resolves to.
  package struct Existing: Sendable {
    package let realName: Name
    /// Whether this is the file that is renamed: the same entry by its other name, or another hard link of it.
    package let isSource: Bool
    package let apparentType: ApparentType

    package init(realName: Name, isSource: Bool = false, apparentType: ApparentType = .file) {
      self.realName = realName
      self.isSource = isSource
      self.apparentType = apparentType
    }
  }

  package let typed: Name
  package let existing: Existing?
  /// Whether source and target are in the same directory.
  package let sameDirectory: Bool
  /// The real name that stood behind `typed` until a moment ago (`Tunnel`).
  package let tunnelled: Name?

  package init(typed: Name, existing: Existing? = nil, sameDirectory: Bool = true, tunnelled: Name? = nil) {
    self.typed = typed
    self.existing = existing
    self.sameDirectory = sameDirectory
    self.tunnelled = tunnelled
  }
}

/// What a rename in the view does to the real names: the view's contract for renaming, as a pure function.
///
/// In every case `from` is a real name in the source's directory, and all other names are real names in the target's directory. A
/// plan never replaces or removes an entry other than the one that the typed name resolves to. If the plan needs a real name that
/// the client did not type, and that name is taken, the result is EEXIST, as the Finder says "the name is already taken". Every
/// plan is safe to stop after any of its steps: either the move is done, or both the source and the entry to be removed still
/// exist.
package enum RenamePlan: Equatable, Sendable {
  /// The entry already has that name: success.
  case noChange
  case refuse(Errno)
  /// One renameat2; with `exclusive`, RENAME_NOREPLACE.
  case move(from: Name, to: Name, exclusive: Bool)
  /// A move with RENAME_NOREPLACE, and then the removal of the entry that had the typed name. The move is undone if the removal
  /// fails, as it does for a directory that is not empty (ENOTEMPTY).
  case moveThenRemove(from: Name, to: Name, remove: Name)
  /// RENAME_EXCHANGE, and then the removal of the entry that is called `from` now. It is used because a directory and a file
  /// cannot replace each other, nor can a directory that is not empty be replaced.
  case exchangeThenRemove(from: Name, to: Name)
  /// RENAME_EXCHANGE: the contents change places, and both real names stay.
  case exchange(from: Name, with: Name)

  /// The real name of the entry after the rename. Nil when nothing moves, or when two entries change places.
  var newName: Name? {
    switch self {
    case .noChange, .refuse, .exchange: nil
    case .move(_, let to, _), .moveThenRemove(_, let to, _), .exchangeThenRemove(_, let to): to
    }
  }

  /// - Returns: a plan, or one of these refusals: EPERM for giving another name to an entry that was named by its localized name;
  ///   EEXIST as described above or with `noReplace`; ENOENT for an exchange without a target; ENAMETOOLONG for a result of more
  ///   than 255 bytes; EISDIR and ENOTDIR as in rename(2); EINVAL for both flags at once, and for an exchange of a package with
  ///   anything else.
  package static func plan(
    _ source: RenameSource, to target: RenameTarget, flags: RenameFlags = [],
    in directory: some DestinationFacts
  ) -> RenamePlan {
    if flags.contains(.exchange) {
      return flags.contains(.noReplace) ? .refuse(.invalidArgument) : exchange(source, target)
    }
    if let existing = target.existing {
      // The same order as in the kernel: RENAME_NOREPLACE is refused before the kernel checks whether both names are the same
      // file.
      if flags.contains(.noReplace) { return .refuse(.fileExists) }
      if existing.isSource { return .noChange }
      if existing.apparentType == .directory, source.apparentType != .directory {
        return .refuse(.isDirectory)
      }
      if existing.apparentType != .directory, source.apparentType == .directory {
        return .refuse(.notDirectory)
      }
    }
    let name: Name
    switch source.effectiveAddressing {
    case _ where source.keepsDecomposedName(movedTo: target):
      name = source.realName
    case .realName:
      name = target.nameForRealName(of: source, in: directory)
    case .hiddenExtension:
      name = target.typed.carrying(source.hiddenExtension, unless: directory.hasKnownExtension)
    case .localized:
      guard source.alreadyHasName(target.typed) else { return .refuse(.notPermitted) }
      name = source.realName
    }
    guard name.fits else { return .refuse(.fileNameTooLong) }
    if target.sameDirectory, name == source.realName {
      // There is an entry to replace here only if the target became stale between resolving and planning.
      return target.existing == nil ? .noChange : .refuse(.fileExists)
    }
    if let existing = target.existing {
      return replace(
        existing, by: source, named: name, sameDirectory: target.sameDirectory, in: directory)
    }
    // Where the backing tree folds case, RENAME_NOREPLACE would fail because the new spelling of the name finds the source
    // itself.
    let isOwnInOtherForm = target.sameDirectory && name.isCaselessMatch(of: source.realName)
    if name != target.typed {
      let own = target.sameDirectory ? [source.realName] : []
      if directory.hasEntry(name) || directory.hasMatch(name, besides: own) { return .refuse(.fileExists) }
    }
    let exclusive = flags.contains(.noReplace) || (name != target.typed && !isOwnInOtherForm)
    return .move(from: source.realName, to: name, exclusive: exclusive)
  }

  private static func exchange(_ source: RenameSource, _ target: RenameTarget) -> RenamePlan {
    guard let existing = target.existing else { return .refuse(.noSuchFileOrDirectory) }
    if existing.isSource { return .noChange }
    // A directory is a package because of its extension: under the other entry's name it would be a plain directory.
    guard (source.apparentType == .package) == (existing.apparentType == .package) else {
      return .refuse(.invalidArgument)
    }
    return .exchange(from: source.realName, with: existing.realName)
  }

  private static func replace(
    _ existing: RenameTarget.Existing, by source: RenameSource, named name: Name,
    sameDirectory: Bool, in directory: some DestinationFacts
  ) -> RenamePlan {
    // `photo.JPG` is as good a name for a JPEG as `photo.jpg`, and where the backing tree folds case they are the same name. A
    // composed name keeps the bytes of the decomposed one.
    guard name.isCaselessMatch(of: existing.realName) else {
      let own = sameDirectory ? [source.realName, existing.realName] : [existing.realName]
      if directory.hasEntry(name) || directory.hasMatch(name, besides: own) { return .refuse(.fileExists) }
      return .moveThenRemove(from: source.realName, to: name, remove: existing.realName)
    }
    return source.apparentType == .package || existing.apparentType == .package
      ? .exchangeThenRemove(from: source.realName, to: existing.realName)
      : .move(from: source.realName, to: existing.realName, exclusive: false)
  }
}

extension RenameTarget {
  /// The existing entry's name. Without one, the typed name, or for a regular file the remembered name.
  ///
  /// A file does not get the name of a package: the extension would make it look like a package, and the file would not be shown
  /// under the typed name.
  fileprivate func nameForRealName(of source: RenameSource, in directory: some DestinationFacts) -> Name {
    if let existing {
      return existing.apparentType == .package && source.apparentType != .package ? typed : existing.realName
    }
    return source.apparentType == .file ? directory.tunnelled(tunnelled, for: typed) ?? typed : typed
  }
}
