import DisplayNames
import SystemPackage

/// The facts about the destination directory that a plan depends on.
package protocol DestinationFacts {
  /// Whether the name ends in an extension that identifies a file type. `trip.png` does; `v1.2` and `notes~` do not.
  func hasKnownExtension(_ name: Name) -> Bool
  /// Whether the directory has an entry with this real name, byte for byte, listed or not.
  func hasEntry(_ name: Name) -> Bool
  /// Whether the directory has an entry with a name that is equal to this one by the option `matching`, other than the entries
  /// with those real names.
  func hasMatch(_ name: Name, besides others: [Name]) -> Bool
  /// Whether an entry could get this display name by hiding its extension: no other entry claims the name, and the directory is
  /// not inside a package, where every name is a real one.
  func canShow(_ name: Name) -> Bool
}

extension DestinationFacts {
  /// The real name that `typed` recently stood for, if it is free and would be shown as `typed` again. Otherwise the typed name
  /// would not resolve.
  func tunnelled(_ name: Name?, for typed: Name) -> Name? {
    guard let name, !hasEntry(name), !hasMatch(name, besides: []), canShow(typed) else { return nil }
    return name
  }
}

/// The real name under which a new entry is created.
package enum CreatePlan: Equatable, Sendable {
  case refuse(Errno)
  /// `exclusive`: the client did not type this name, so an entry that has got it meanwhile must not be touched (EEXIST).
  case create(Name, exclusive: Bool)

  /// Plans a regular file under a name that does not resolve. Directories, symlinks and special files take the typed name and
  /// need no plan.
  ///
  /// - Parameter tunnelled: the real name that `typed` stood for a moment ago (`Tunnel`): an editor that moved the old file away
  ///   is writing the new one.
  package static func file(typed: Name, tunnelled: Name?, in directory: some DestinationFacts) -> CreatePlan {
    guard typed.fits else { return .refuse(.fileNameTooLong) }
    if let tunnelled = directory.tunnelled(tunnelled, for: typed), tunnelled != typed {
      return .create(tunnelled, exclusive: true)
    }
    return .create(typed, exclusive: false)
  }

  /// Plans a hard link of `source`. Like a moved entry it keeps the extension that the display name hides, so that a backup made
  /// by linking (glib's `g_file_replace`, `rsync -b`, `perl -i.bak`) still opens as its type.
  ///
  /// Errors: EEXIST when the real name is taken; EPERM for packages and directories, as in link(2), and for another name for a
  /// localized entry; ENAMETOOLONG.
  ///
  /// - Parameter typed: a name that does not resolve.
  package static func link(
    _ source: RenameSource, typed: Name, sameDirectory: Bool, tunnelled: Name?,
    in directory: some DestinationFacts
  ) -> CreatePlan {
    guard !source.apparentType.isBackedByDirectory else { return .refuse(.notPermitted) }
    let name: Name
    switch source.effectiveAddressing {
    case .realName:
      return file(typed: typed, tunnelled: source.apparentType == .file ? tunnelled : nil, in: directory)
    case .hiddenExtension:
      name = typed.carrying(source.hiddenExtension, unless: directory.hasKnownExtension)
    case .localized:
      guard !sameDirectory, source.alreadyHasName(typed) else { return .refuse(.notPermitted) }
      name = source.realName
    }
    guard name.fits else { return .refuse(.fileNameTooLong) }
    if name != typed, directory.hasEntry(name) || directory.hasMatch(name, besides: []) {
      return .refuse(.fileExists)
    }
    return .create(name, exclusive: name != typed)
  }
}

extension Name {
  /// Whether the name has at most NAME_MAX bytes, the limit of every Linux file system that stores the names.
  var fits: Bool { bytes.count <= 255 }

  /// The real name for a name typed for an entry whose display name hides `hidden` (the period included).
  ///
  /// The hidden extension stays unless an extension was typed. The same extension, in any case, is not doubled. Another known
  /// extension is what the user wants ("what you see is what you type", Mac OS X 10.1 release notes). The part after the period
  /// in `v1.2` is no extension.
  ///
  /// A typed name that begins with a period is used unchanged. Entries with such names are not listed, so they are reached by
  /// their real name only, and the program that moved `notes` to `.notes.bak` must find it there.
  func carrying(_ hidden: ArraySlice<UInt8>, unless hasKnownExtension: (Name) -> Bool) -> Name {
    if bytes.first == UInt8(ascii: ".") || endsIgnoringCase(in: hidden) || hasKnownExtension(self) {
      return self
    }
    return Name(bytes + hidden)
  }

  private func endsIgnoringCase(in suffix: ArraySlice<UInt8>) -> Bool {
    bytes.count > suffix.count && Name(bytes.suffix(suffix.count)).equalsIgnoringCase(Name(suffix))
  }

  /// Whether the names differ at most in case and normalization. (D145)
  func isCaselessMatch(of other: Name) -> Bool {
    if equalsIgnoringCase(other) { return true }
    // Names of ASCII alone differ in nothing else.
    if bytes.span.isASCII, other.bytes.span.isASCII { return false }
    return NameMatching.caseless.sharedForm(of: self) == NameMatching.caseless.sharedForm(of: other)
  }

  /// Equal except for the case of ASCII letters, the only letters in extensions.
  func equalsIgnoringCase(_ other: Name) -> Bool {
    bytes.count == other.bytes.count
      && zip(bytes, other.bytes).allSatisfy { $0.asciiLowercase == $1.asciiLowercase }
  }
}

extension UInt8 {
  fileprivate var asciiLowercase: UInt8 {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(self) ? self | 0x20 : self
  }
}
