import BackingTree
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// Which entries of a directory a backup of a Mac or an iOS device takes.
package struct BackupSelection {
  private let inspector: EntryInspector
  /// The names that lead from SOURCE to the directory.
  private let path: [Name]
  /// Whether the directory, or one above it, is left out.
  private let isLeftOut: Bool
  /// Nil where the directory cannot be opened: then the place alone decides.
  private let directory: OpenedDirectory?

  private final class OpenedDirectory {
    private let descriptor: Descriptor

    init?(_ name: CName, in parent: Directory) {
      guard let opened = name.withPointer({ try? parent.subdirectory($0) }) else { return nil }
      descriptor = opened
    }

    var directory: Directory { Directory(descriptor: descriptor.rawValue) }
  }

  /// - Parameters:
  ///   - path: the names that lead from SOURCE to the directory.
  ///   - source: SOURCE.
  init(_ inspector: EntryInspector, in path: [Name], of source: Directory) {
    self.inspector = inspector
    self.path = path
    var isLeftOut = StandardDirectory.isLeftOutOfBackups(path, inspector.options)
    var directory = OpenedDirectory(CName("."), in: source)
    for name in path where !isLeftOut {
      guard let parent = directory?.directory else { break }
      let name = CName(name)
      isLeftOut = Self.isExcluded(name, in: parent, inspector)
      directory = OpenedDirectory(name, in: parent)
    }
    self.isLeftOut = isLeftOut
    self.directory = directory
  }

  /// Of a directory that is taken, as are all above it: nothing has to be looked at on the way there.
  init(_ inspector: EntryInspector, inTaken path: [Name], _ directory: Directory) {
    self.inspector = inspector
    self.path = path
    isLeftOut = false
    self.directory = OpenedDirectory(CName("."), in: directory)
  }

  package func takes(_ name: Name) -> Bool {
    if isLeftOut || StandardDirectory.isLeftOutItself((path + [name])[...], inspector.options) {
      return false
    }
    return directory.map { !Self.isExcluded(CName(name), in: $0.directory, inspector) } ?? true
  }

  /// Whether the owner of an entry has excluded it from the backups of Time Machine.
  private static func isExcluded(_ name: CName, in directory: Directory, _ inspector: EntryInspector) -> Bool
  {
    guard inspector.options.finderInfo != .off else { return false }
    let attributes = name.withPointer { ExtendedAttributes(of: $0, in: directory) }
    let reader = DesktopAttributeReader(
      [.backupExclusion], metadata: inspector.metadata, place: (name, directory),
      sideFiles: inspector.metadata.possibleSideFiles, client: .daemon)
    let values = reader.values(in: attributes, named: (try? attributes.names()) ?? [])
    return values[.backupExclusion]?.elementsEqual("com.apple.backupd".utf8) ?? false
  }
}

extension View {
  /// What a backup takes of a directory that it takes, as it takes all above it.
  ///
  /// - Parameter path: the names that lead from SOURCE to the directory.
  package func backupSelection(in id: NodeID, inTaken path: [Name]) throws(Errno) -> BackupSelection {
    BackupSelection(inspector, inTaken: path, try directory(id).directory)
  }
}
