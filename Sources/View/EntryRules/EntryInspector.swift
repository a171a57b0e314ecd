import BackingTree
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// Collects what the rules must know of a backing entry, and applies them.
///
/// It spends a system call per entry only where the result can matter: on markers of directories, property lists of packages,
/// and Finder info on volumes that have any.
package final class EntryInspector: Sendable {
  let options: ViewOptions
  /// Whether any rule protects entries.
  let protectsAnything: Bool
  private let extensionRule: ExtensionRule
  /// The known extensions that are not those of packages.
  private let fileExtensions: ExtensionSet
  let hiddenRules: HiddenRules
  let packageTypes: PackageTypes
  /// The uniform type identifiers that applications declare, by extension in lower case.
  let declaredIdentifiers: [String: String]
  private let localizer: Localizer
  /// Whether permissions decide how entries are shown, because the view is used by all users.
  let doPermissionsAffectListing: Bool
  let metadata: FinderMetadata
  /// Nil where aliases are shown as the files that they are.
  let aliases: Aliases?
  private let rulesMakePackages: Bool

  /// - Parameters:
  ///   - options: the options, with the profile already determined.
  ///   - isShared: whether the view is used by all users.
  ///   - isMetadataFound: whether the volume is known to have Finder info.
  init(
    options: ViewOptions, root: Directory, isShared: Bool, malformedMetadataLog: MalformedMetadataLog,
    isMetadataFound: Bool = false
  ) {
    self.options = options
    protectsAnything = options.protectsAnything
    hiddenRules = HiddenRules(disabling: options.disabledRules)
    rulesMakePackages = options.rules.contains { $0.kind == .package }
    var types = PackageTypes.builtIn
    var identifiers: [String: String] = [:]
    if options.profile == .macos || options.profile == .home {
      let applications = InstalledApplications.properties(below: root)
      for declared in PackageExtension.declared(by: applications, packageTypes: types.identifiers) {
        types.insert(declared.extension, type: declared.type.map { PackageType(uti: $0) } ?? .byBundleBit)
      }
      identifiers = PackageExtension.identifiers(declaredBy: applications)
    }
    declaredIdentifiers = identifiers
    packageTypes = types
    extensionRule = ExtensionRule(
      mode: options.extensions, known: KnownExtensions.known.union(types.extensions))
    fileExtensions = KnownExtensions.known.subtracting(types.extensions)
    doPermissionsAffectListing = isShared
    localizer = Localizer(
      languages: options.languages, root: root, isShared: isShared, malformedMetadataLog: malformedMetadataLog
    )
    metadata = FinderMetadata(
      options: options, root: root, malformedMetadataLog: malformedMetadataLog, isFound: isMetadataFound)
    aliases = options.aliases == .symlink ? metadata.root.map(Aliases.init) : nil
  }

  /// What the content of a directory says about its entries.
  struct DirectoryFacts {
    /// The real names in its `.hidden` file, in the form of `listedForm`.
    var hiddenList: Set<[UInt8]> = []
    /// The names of the home's XDG user directories that lie in this directory, by real name.
    var userDirectories: [Name: Name] = [:]
    /// Whether netatalk keeps metadata in this directory.
    var hasNetatalkDirectory = false
  }

  /// - Parameter mayHold: whether the directory may have an entry of that name.
  func facts(
    of directory: Directory, at site: Site, mayHold: (UnsafePointer<CChar>) -> Bool = { _ in true }
  ) -> DirectoryFacts {
    if site.role.contains(.insidePackage) { return DirectoryFacts() }
    var facts = DirectoryFacts()
    if options.hidden != .show, mayHold(".hidden"),
      let list = directory.smallFile(".hidden", limit: ParserLimits.inputBytes)
    {
      facts.hiddenList = Set((HiddenList.parse(list) ?? []).map { listedForm(Name($0)).bytes })
    }
    facts.hasNetatalkDirectory =
      metadata.isPresent && mayHold(".AppleDouble") && directory.has(".AppleDouble")
    if let home = homeOfUserDirectories(at: site) {
      facts.userDirectories = localizer.userDirectories(of: home.handle.directory, in: home.path)
    }
    return facts
  }

  /// What the directory and the entry's metadata say that may hide the entry.
  func hiddenFacts(of name: Name, _ facts: DirectoryFacts, _ finder: FinderFlags) -> HiddenFacts {
    var hidden: HiddenFacts = []
    if isListed(name, facts) { hidden.insert(.inHiddenList) }
    if finder.isInvisible { hidden.insert(.finderInvisible) }
    if finder.isDOSHidden { hidden.insert(.dosHidden) }
    return hidden
  }

  private func isListed(_ name: Name, _ facts: DirectoryFacts) -> Bool {
    !facts.hiddenList.isEmpty && facts.hiddenList.contains(listedForm(name).bytes)
  }

  /// The form by which names are compared with those in a `.hidden` file: it may be written by what the view shows.
  private func listedForm(_ name: Name) -> Name { options.matching == .exact ? name : name.composed }

  /// The home with the `.config/user-dirs.dirs` that may name some of the directories at `site`; nil outside homes, and with
  /// the profile macos.
  func homeOfUserDirectories(at site: Site) -> Site.Home? { options.profile == .macos ? nil : site.home }

  /// Whether the content of a file of that name may determine how the file is listed.
  func mayAffectOwnListing(_ name: Name) -> Bool {
    aliases != nil || options.readsDesktopNames && Self.isDesktopEntry(name.bytes.span)
  }

  /// Whether the content of a file of that name decides, with these options, how entries are listed, so that what a client wrote
  /// to it must take effect when the client closes it: the list `.hidden`, an AppleDouble sidecar, or a desktop entry that is shown
  /// by the name in it.
  func mayDecideListing(_ name: UnsafePointer<CChar>) -> Bool {
    if Self.isHiddenList(name) { return true }
    if strncmp(name, "._", 2) == 0 { return options.finderInfo != .off }
    return options.readsDesktopNames && Self.isDesktopEntry(name)
  }

  static func isHiddenList(_ name: UnsafePointer<CChar>) -> Bool { strcmp(name, ".hidden") == 0 }

  static func isDesktopEntry(_ name: UnsafePointer<CChar>) -> Bool {
    let bytes = UnsafeRawBufferPointer(start: name, count: strlen(name)).bindMemory(to: UInt8.self)
    return isDesktopEntry(Span(_unsafeElements: bytes))
  }

  /// Whether, with any options, the content of a file of that name may determine how it or its siblings are listed.
  static func mayAffectListing(_ name: UnsafePointer<CChar>) -> Bool {
    name[0] == 0x2e || isDesktopEntry(name)
  }

  private static func isDesktopEntry(_ name: Span<UInt8>) -> Bool {
    name.extracting(last: 8).equals(".desktop")
  }

  /// Collects what the projection must know of an entry.
  ///
  /// - Parameter sources: receives the directories that were read for the entry, as paths relative to `directory`, or to SOURCE
  ///   where they begin with a slash. When one of them changes, the entry must be inspected again.
  func inspect(
    name: Name, type: FileType, inode: UInt64, in directory: Directory, at site: Site, facts: DirectoryFacts,
    sideFiles: FinderMetadata.SideFiles,
    sources: inout [[UInt8]]
  ) -> Projection.Child {
    var child = Projection.Child(
      realName: name, kind: Self.kind(of: type), inode: inode, entryType: type.direntType)
    if name == ContainerData.realName { return ContainerData.child(of: directory, inode: inode) ?? child }
    if sideFiles.isEmpty, let plain = nameOnlyRules(at: site, facts: facts),
      let decided = plain.facts(of: name.bytes.span, child.kind)
    {
      child.hidden = decided.hidden
      child.stemLength = decided.stemLength
      return child
    }
    let role = site.role
    if role.contains(.insidePackage) {
      if options.hidden != .show {
        child.hidden = hiddenRules.reason(name: name.bytes.span, kind: child.kind)
      }
      return child
    }
    let verdict = site.rules.verdict(on: name.bytes.span, isDirectory: type == .directory)
    let finder = metadata.flags(of: name, in: directory, sideFiles: sideFiles)
    if let depotDirectory = finder.depotDirectory { sources.append([0x2f] + depotDirectory) }
    if type == .directory {
      if sideFiles.contains(.netatalk) { sources.append(name.bytes + Array("/.AppleDouble".utf8)) }
      let candidate = packageTypes.type(of: name.bytes.span, hasBundleBit: finder.hasBundle)
      let isPackage =
        verdict.kind.map { $0.value == .package }
        ?? candidate.map { isComplete($0, name, in: directory) } ?? false
      if isPackage { child.kind = .package }
      if verdict.kind == nil, candidate?.needsInfoPlist ?? false {
        // The directory is a package while it has a property list.
        sources += [name.bytes, name.bytes + Array("/Contents".utf8)]
      }
    }
    if options.hidden != .show, verdict.isHidden?.value != false {
      var hiddenFacts = hiddenFacts(of: name, facts, finder)
      if verdict.isHidden != nil { hiddenFacts.insert(.configured) }
      if sideFiles.contains(.ofSibling), FinderMetadata.isAppleDouble(name, in: directory) {
        hiddenFacts.insert(.appleDouble)
      }
      child.hidden = hiddenRules.reason(
        name: name.bytes.span, kind: child.kind, role: role, facts: hiddenFacts)
      if child.hidden != nil { return child }
    }
    // The trash records this entry by its real name, and only that name can restore it.
    if role.contains(.trashFiles), directory.hasTrashInfo(for: name) { return child }
    switch verdict.fileExtension?.value {
    case .keep: break
    case .hide: child.stemLength = extensionRule.configuredStemLength(of: name.bytes.span, kind: child.kind)
    case nil:
      child.stemLength = extensionRule.stemLength(
        of: name.bytes.span, kind: child.kind, finderFlagHidden: finder.hidesExtension)
    }
    if type == .directory {
      localizer.localize(
        &child, in: directory, showsExtensions: options.extensions == .show, sources: &sources)
      if child.localized == nil, let userDirectory = facts.userDirectories[name] {
        child.localized = userDirectory
      }
    }
    if options.readsDesktopNames,
      let named = localizer.desktopName(of: child, in: directory, sources: &sources)
    {
      child.localized = named
    }
    if let name = verdict.displayName(of: name, in: options.languages) { child.localized = name }
    if type == .regular { showAlias(&child, in: directory, at: site, finder, sideFiles, sources: &sources) }
    // A localized name equal to the name of the next rung is not counted as localized.
    if let localized = child.localized,
      localized == name || localized.bytes.elementsEqual(name.bytes.prefix(child.stemLength ?? 0))
    {
      child.localized = nil
    }
    return child
  }

  /// The rules for a directory in which most entries are decided by their name alone, as in most directories.
  ///
  /// They work on the bytes of the name in place, because a directory may have a million entries.
  struct NameOnlyRules {
    fileprivate let extensionRule: ExtensionRule
    fileprivate let hiddenRules: HiddenRules
    fileprivate let role: DirectoryRole
    fileprivate let hides: Bool
    fileprivate let readsDesktopNames: Bool

    /// The same result as `inspect` gives; nil for an entry that has to be inspected.
    func facts(
      of name: Span<UInt8>, _ kind: EntryKind
    ) -> (hidden: HiddenReason?, stemLength: Int?)? {
      // `._name` may be an AppleDouble sidecar.
      if kind == .directory || name.count > 1 && name[0] == 0x2e && name[1] == 0x5f { return nil }
      if readsDesktopNames, EntryInspector.isDesktopEntry(name) { return nil }
      let hidden = hides ? hiddenRules.reason(name: name, kind: kind, role: role) : nil
      return (
        hidden, hidden == nil ? extensionRule.stemLength(of: name, kind: kind, finderFlagHidden: false) : nil
      )
    }
  }

  /// The rules by name alone; nil where every entry has to be inspected.
  func nameOnlyRules(at site: Site, facts: DirectoryFacts) -> NameOnlyRules? {
    guard aliases == nil, !metadata.isPresent, !facts.hasNetatalkDirectory, facts.hiddenList.isEmpty,
      site.rules.isEmpty,
      site.role.isDisjoint(with: [.insidePackage, .trashFiles])
    else { return nil }
    return NameOnlyRules(
      extensionRule: extensionRule, hiddenRules: hiddenRules, role: site.role,
      hides: options.hidden != .show,
      readsDesktopNames: options.readsDesktopNames)
  }

  /// The type of a package; nil for a directory that is not a package.
  func packageType(of name: Name, in directory: Directory, hasBundleBit: Bool) -> PackageType? {
    guard let type = packageTypes.type(of: name.bytes.span, hasBundleBit: hasBundleBit) else { return nil }
    return isComplete(type, name, in: directory) ? type : nil
  }

  /// Whether a directory has the property list that packages of its type need.
  private func isComplete(_ type: PackageType, _ name: Name, in directory: Directory) -> Bool {
    !type.needsInfoPlist || Self.infoPlists.contains(where: { directory.hasFile(name.bytes + $0) })
  }

  /// Whether an existing directory is a package.
  func isPackage(_ name: Name, in directory: Directory, at site: Site) -> Bool {
    if let kind = site.rules.verdict(on: name.bytes.span, isDirectory: true).kind {
      return kind.value == .package
    }
    let sideFiles: FinderMetadata.SideFiles = metadata.isPresent ? [.appleDouble, .netatalk] : []
    let flags = metadata.flags(of: name, in: directory, sideFiles: sideFiles)
    return packageType(of: name, in: directory, hasBundleBit: flags.hasBundle) != nil
  }

  /// Whether a directory of that name may be a package. False is certain without reading anything.
  func mayBePackage(_ name: UnsafePointer<CChar>) -> Bool {
    if metadata.isPresent || rulesMakePackages { return true }
    let bytes = UnsafeRawBufferPointer(start: name, count: strlen(name)).bindMemory(to: UInt8.self)
    return packageTypes.type(of: Span(_unsafeElements: bytes)) != nil
  }

  /// Whether a regular file of that name is to become a package when the content written to it is a package's stream.
  func mayBecomePackage(_ name: UnsafePointer<CChar>) -> Bool {
    // A hidden file is examined when it is renamed to a name that can be seen.
    if name[0] == 0x2e { return false }
    let bytes = UnsafeRawBufferPointer(start: name, count: strlen(name)).bindMemory(to: UInt8.self)
    return !fileExtensions.containsExtension(of: Span(_unsafeElements: bytes))
  }

  /// The uniform type identifier for a package's stream.
  func typeIdentifier(of name: Name) -> String {
    packageTypes.identifier(of: name)
  }

  func hasKnownExtension(_ name: Name) -> Bool { extensionRule.known.containsExtension(of: name.bytes.span) }

  /// Whether a new entry of that name and kind would be hidden, as far as rules and a `.hidden` file tell.
  func isHiddenByName(
    _ name: Name, _ kind: EntryKind, at site: Site, facts: DirectoryFacts = DirectoryFacts()
  ) -> Bool {
    site.rules.verdict(on: name.bytes.span, isDirectory: kind == .directory).isHidden?.value
      ?? (hiddenRules.reason(
        name: name.bytes.span, kind: kind, role: site.role, facts: isListed(name, facts) ? .inHiddenList : [])
        != nil)
  }

  /// Whether a name that begins with a period may be a display name that is not the real one.
  var showsDotNames: Bool {
    options.hidden == .show || !options.rules.isEmpty || options.disabledRules.contains(.dotFile)
  }

  /// Whether an entry of that name affects how its parent directory is listed.
  func mayChangeListingOfParent(_ name: UnsafePointer<CChar>) -> Bool {
    strcmp(name, "Contents") == 0 || strcmp(name, "Info.plist") == 0 || strcmp(name, ".localized") == 0
      || strcmp(name, ".directory") == 0 && options.readsDesktopNames
  }

  private static let infoPlists = [Array("/Contents/Info.plist".utf8), Array("/Info.plist".utf8)]

  static func kind(of type: FileType) -> EntryKind {
    switch type {
    case .regular: .file
    case .directory: .directory
    case .symlink: .symlink
    default: .other
    }
  }
}

extension Directory {
  /// Whether the trash of this `files` directory has a `.trashinfo` file for an entry of that name.
  func hasTrashInfo(for name: Name) -> Bool {
    (Array("../info/".utf8) + name.bytes + Array(".trashinfo".utf8)).withCName { has($0) }
  }

  /// Whether a path below this directory leads to a regular file without passing a symlink.
  func hasFile(_ path: [UInt8]) -> Bool {
    path.withCName { try? statusBeneath($0) }.map { FileType(mode: $0.st_mode) == .regular } ?? false
  }
}
