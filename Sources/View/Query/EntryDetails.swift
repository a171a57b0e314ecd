import BackingTree
import DisplayNames
import Glibc
import MacMetadata
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

/// What decides the details of the entries of one directory, looked at once.
package struct DetailsOfEntries {
  fileprivate let view: View
  /// The names that lead from SOURCE to the directory.
  package let path: [Name]
  package let selection: BackupSelection

  package func details(of entry: Explanation) -> EntryDetails {
    EntryDetails(
      contentType: view.contentType(of: entry), purpose: view.purpose(of: entry, at: path + [entry.realName]),
      isBackedUp: selection.takes(entry.realName))
  }
}

extension View {
  package func details(of entry: Explanation) throws(Errno) -> EntryDetails {
    let path = try path(of: entry)
    return EntryDetails(
      contentType: contentType(of: entry), purpose: purpose(of: entry, at: path), isBackedUp: isBackedUp(path)
    )
  }

  /// The details of the entries of a directory.
  package func detailsOfEntries(in id: NodeID) throws(Errno) -> DetailsOfEntries {
    let path = try links(to: id).map(\.name.name)
    return DetailsOfEntries(
      view: self, path: path, selection: BackupSelection(inspector, in: path, of: source.root.directory))
  }

  /// The names that lead from SOURCE to an entry.
  func path(of entry: Explanation) throws(Errno) -> [Name] {
    let source = try explain(NodeTable.root).realPathBytes
    return entry.realPathBytes.dropFirst(source.count).split(separator: 0x2f).map { Name($0) }
  }

  func purpose(of entry: Explanation, at path: [Name]) -> String? {
    entry.kind == .directory ? StandardDirectory.purpose(ofPath: path, options) : nil
  }

  func isBackedUp(_ path: [Name]) -> Bool {
    guard let name = path.last else { return true }
    return BackupSelection(inspector, in: path.dropLast(), of: source.root.directory).takes(name)
  }

  func contentType(of entry: Explanation) -> ContentType {
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
    let shared = (variable("XDG_DATA_DIRS") ?? "/usr/local/share:/usr/share").parts(at: ":")
    var globs = MIMEGlobs()
    for place in [own].compactMap({ $0 }) + shared {
      if let table = Directory(descriptor: AT_FDCWD).wholeFile("\(place)/mime/globs2") { globs.add(table) }
    }
    return globs
  }()
}
