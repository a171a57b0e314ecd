/// Selects the entries whose filename extension is hidden.
public enum ExtensionMode: String, CaseIterable, Sendable {
  /// Packages, and files of document types that are recognised without their extension.
  case hide
  /// Every regular file and package, as "File System Basics" describes the Finder.
  case all
  /// Applications, and items with the "hide extension" bit in their Finder info: the Finder's default settings.
  case flag
  /// No entries.
  case show
}

/// Decides whether an entry is shown without its filename extension.
public struct ExtensionRule: Sendable {
  public var mode: ExtensionMode
  /// The document types whose extension is hidden in mode `hide`.
  public var hideable: ExtensionSet
  /// All extensions that stand for a type. The caller adds those of package types declared by applications. Modes `hide` and
  /// `flag` hide no other extension of a package.
  public var known: ExtensionSet

  public init(
    mode: ExtensionMode, hideable: ExtensionSet = KnownExtensions.hideable,
    known: ExtensionSet = KnownExtensions.known
  ) {
    self.mode = mode
    self.hideable = hideable
    self.known = known
  }

  /// The length of `name` without its extension, for an entry whose extension a rule of the configuration hides; nil when the
  /// name must be shown whole.
  public func configuredStemLength(of name: Span<UInt8>, kind: EntryKind) -> Int? {
    guard kind != .directory, kind != .other, isUTF8(name) else { return nil }
    return FileExtension.stemLength(of: name)
  }

  /// The length of the part of `name` that is shown; nil when the name is shown whole.
  ///
  /// `finderFlagHidden` is the "hide extension" bit of the item's Finder info; only mode `flag` uses it. Names that are not valid
  /// UTF-8 are shown whole, and so are names of plain directories, pipes, sockets and devices.
  public func stemLength(of name: Span<UInt8>, kind: EntryKind, finderFlagHidden: Bool) -> Int? {
    guard mode != .show, kind != .directory, kind != .other,
      let stem = FileExtension.stemLength(of: name),
      hides(name, stem: stem, kind: kind, finderFlagHidden: finderFlagHidden),
      !isDeceptive(name, stem: stem),
      isUTF8(name)
    else { return nil }
    return stem
  }

  private func hides(_ name: Span<UInt8>, stem: Int, kind: EntryKind, finderFlagHidden: Bool) -> Bool {
    switch mode {
    case .show: false
    case .all: true
    case .flag:
      kind == .package && KnownExtensions.application.contains(name, from: stem + 1)
        || finderFlagHidden && known.contains(name, from: stem + 1)
    case .hide:
      // A directory may be a package by its bundle bit alone: the name `Reports 1.2` does not end in a type.
      kind == .package
        ? known.contains(name, from: stem + 1)
        : hideable.contains(name, from: stem + 1) && !KnownExtensions.isBuildFile(name)
    }
  }

  /// Whether the shortened name would suggest a type that the entry does not have.
  ///
  /// In that case an executable item keeps its extension, as the Finder shows `Chess.mov.app` (Bundle Programming Guide, "Bundle
  /// Display Names"). Mode `hide` applies this to every item, because it promises that no information in an extension is lost:
  /// `main.c.gz` shown as `main.c` would look like source code. In the other modes an ordinary document does lose its extension
  /// (`MyDocument.old.txt`, "Filename Extensions").
  private func isDeceptive(_ name: Span<UInt8>, stem: Int) -> Bool {
    guard mode == .hide || KnownExtensions.executable.contains(name, from: stem + 1) else { return false }
    return known.containsExtension(of: name.extracting(0..<stem))
  }

  private func isUTF8(_ name: Span<UInt8>) -> Bool {
    if name.isASCII { return true }
    do throws(UTF8.ValidationError) {
      _ = try UTF8Span(validating: name)
      return true
    } catch {
      return false
    }
  }
}
