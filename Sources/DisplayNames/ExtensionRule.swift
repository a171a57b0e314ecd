/// Whose extensions the view hides.
public enum ExtensionMode: String, CaseIterable, Sendable {
  /// Packages, and files of document types that do not need their extension to be recognised.
  case hide
  /// Every regular file and package, as "File System Basics" describes the Finder.
  case all
  /// Applications, and items whose Finder info says so: the Finder's own default settings.
  case flag
  /// Nothing.
  case show
}

/// Decides whether an entry is shown without its filename extension.
public struct ExtensionRule: Sendable {
  public var mode: ExtensionMode
  /// The document types whose extension mode `hide` hides.
  public var hideable: ExtensionSet
  /// The extensions that mean a type at all. Those of package types that applications declare have to be added:
  /// a package loses no other.
  public var known: ExtensionSet

  public init(
    mode: ExtensionMode, hideable: ExtensionSet = KnownExtensions.hideable,
    known: ExtensionSet = KnownExtensions.known
  ) {
    self.mode = mode
    self.hideable = hideable
    self.known = known
  }

  /// The length of a name without an extension that the configuration hides.
  public func configuredStemLength(of name: Span<UInt8>, kind: EntryKind) -> Int? {
    guard kind != .directory, kind != .other, isUTF8(name) else { return nil }
    return FileExtension.stemLength(of: name)
  }

  /// The length of the name shown in place of `name`, or nil when it is shown whole.
  ///
  /// `finderFlagHidden` is the "hide extension" bit of the item's Finder info; only mode `flag` asks for it.
  /// Names that are not valid UTF-8 are shown whole, and plain directories, pipes, sockets and devices are
  /// too.
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
      // A package may be one by its bundle bit alone: `Reports 1.2` does not end in a type.
      kind == .package
        ? known.contains(name, from: stem + 1)
        : hideable.contains(name, from: stem + 1) && !KnownExtensions.isBuildFile(name)
    }
  }

  /// Whether the shortened name would claim a type that the entry does not have.
  ///
  /// What can be executed keeps its extension then, as the Finder shows `Chess.mov.app` (Bundle Programming
  /// Guide, "Bundle Display Names"). Mode `hide` goes further because it promises that nothing an extension
  /// said is lost: `main.c.gz` shown as `main.c` would be taken for source by name. In the other modes an
  /// ordinary document does lose it (`MyDocument.old.txt`, "Filename Extensions").
  private func isDeceptive(_ name: Span<UInt8>, stem: Int) -> Bool {
    guard mode == .hide || KnownExtensions.executable.contains(name, from: stem + 1) else { return false }
    return known.containsExtension(of: name.extracting(0..<stem))
  }

  private func isUTF8(_ name: Span<UInt8>) -> Bool {
    for index in name.indices where name[index] >= 0x80 {
      do throws(UTF8.ValidationError) {
        _ = try UTF8Span(validating: name)
        return true
      } catch {
        return false
      }
    }
    return true
  }
}
