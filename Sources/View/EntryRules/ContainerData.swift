import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// An iCloud container's contents beside its documents are "treated as data and shown as a single entry" ("File System
/// Basics", iCloud File Storage Containers): a file under the container's own name, whose content is the stream of the
/// container without `Documents`.
///
/// No directory entry stands for it. The container appears as a package in itself, with the real name `.`. So the entry cannot
/// be renamed or removed, and the parts of the container are reached by their real names.
enum ContainerData {
  static let realName: Name = "."

  private static let omitted: Set<[UInt8]> = [Array("Documents".utf8), Array("\(Staging.name)".utf8)]

  /// The directory entries that the stream of a package leaves out.
  static func omitted(from package: Name) -> Set<[UInt8]> { package == realName ? omitted : [] }

  /// Whether a view with these options shows the entry. With `hidden=deny` the entry would expose hidden data. As a directory it
  /// would contain itself without end.
  static func isShown(by options: ViewOptions) -> Bool {
    options.hidden == .reach && options.packages == .file
  }

  /// The container as an entry of itself; nil if it has no name that can be shown.
  static func child(of container: Directory, inode: UInt64) -> Projection.Child? {
    let path = try? Directory(descriptor: AT_FDCWD).symlinkTarget("/proc/self/fd/\(container.descriptor)")
    guard let name = path?.split(separator: 0x2f).last.flatMap({ Name($0).text }),
      let shown = LocalizedName.sanitize(name, realName: "container")
    else { return nil }
    return Projection.Child(
      realName: realName, kind: .package, inode: inode, entryType: FileType.directory.direntType,
      localized: shown)
  }
}
