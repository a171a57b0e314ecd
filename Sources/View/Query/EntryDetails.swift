import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// What the view says of an entry beside its names.
public struct EntryDetails: Sendable {
  /// The type that an application on the volume declares for the extension, else that of this machine's shared MIME database.
  public let contentType: ContentType
  /// What a standard directory is for, in an English sentence; nil for other entries.
  public let purpose: String?
  /// Whether a backup of a Mac or an iOS device takes the entry: neither its place nor its owner excludes it.
  public let isBackedUp: Bool

  package init(contentType: ContentType, purpose: String?, isBackedUp: Bool) {
    self.contentType = contentType
    self.purpose = purpose
    self.isBackedUp = isBackedUp
  }
}

extension ViewedPath {
  /// What the view says beside the names of an entry that it gave.
  ///
  /// - Throws: ``Failure/system(_:_:)``, with ESTALE when SOURCE is gone.
  public func details(of entry: Explanation) throws(Failure) -> EntryDetails {
    do throws(Errno) { return try view.details(of: entry) } catch { throw .system(entry.realPath, error) }
  }
}

extension View {
  package func details(of entry: Explanation) throws(Errno) -> EntryDetails {
    let path = try path(of: entry)
    return EntryDetails(
      contentType: contentType(of: entry),
      purpose: entry.kind == .directory ? StandardDirectory.purpose(ofPath: path, options) : nil,
      isBackedUp: !StandardDirectory.isLeftOutOfBackups(path, options) && !isExcludedFromBackups(path))
  }

  /// Whether an owner has excluded what lies at `path`, or a directory above it, from the backups of Time Machine.
  private func isExcludedFromBackups(_ path: [Name]) -> Bool {
    guard options.finderInfo != .off, var directory = try? source.root.directory.subdirectory(".") else {
      return false
    }
    for name in path {
      let place = (name: CName(name), directory: Directory(descriptor: directory.rawValue))
      if isExcludedFromBackups(place) { return true }
      guard let next = place.name.withPointer({ try? place.directory.subdirectory($0) }) else { return false }
      directory = next
    }
    return false
  }

  private func isExcludedFromBackups(_ place: (name: CName, directory: Directory)) -> Bool {
    let attributes = place.name.withPointer { ExtendedAttributes(of: $0, in: place.directory) }
    let reader = DesktopAttributeReader(
      [.backupExclusion], metadata: inspector.metadata, place: place,
      sideFiles: inspector.metadata.isPresent ? [.appleDouble, .netatalk] : .appleDouble, client: .daemon)
    let values = reader.values(in: attributes, named: (try? attributes.names()) ?? [])
    return values[.backupExclusion]?.elementsEqual("com.apple.backupd".utf8) ?? false
  }

  /// The names that lead from SOURCE to an entry.
  private func path(of entry: Explanation) throws(Errno) -> [Name] {
    let source = try explain(NodeTable.root).realPathBytes
    return entry.realPathBytes.dropFirst(source.count).split(separator: 0x2f).map { Name($0) }
  }

  private func contentType(of entry: Explanation) -> ContentType {
    let name = entry.realName
    let declared = FileExtension.stemLength(of: name.bytes.span).flatMap {
      inspector.declaredIdentifiers[String(decoding: name.bytes[($0 + 1)...], as: UTF8.self).lowercased()]
    }
    return ContentType.of(
      name, entry.kind, declared: declared, packageTypes: inspector.packageTypes, globs: Self.machineGlobs)
  }

  /// The names that this machine's shared MIME database knows, those of the user first. (XDG Base Directory Specification)
  private static let machineGlobs: MIMEGlobs = {
    func variable(_ name: String) -> String? {
      getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
    let own = variable("XDG_DATA_HOME") ?? variable("HOME").map { "\($0)/.local/share" }
    let shared = (variable("XDG_DATA_DIRS") ?? "/usr/local/share:/usr/share").split(separator: ":")
    var globs = MIMEGlobs()
    for place in [own].compactMap({ $0 }) + shared.map(String.init) {
      if let table = Directory(descriptor: AT_FDCWD).wholeFile("\(place)/mime/globs2") { globs.add(table) }
    }
    return globs
  }()
}
