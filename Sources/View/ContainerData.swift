import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// What an iCloud container holds beside its documents is "treated as data and shown as a single entry" ("File System
/// Basics", iCloud File Storage Containers): a file under the container's own name, which is the stream of the container
/// without `Documents`.
///
/// No directory entry stands for it. The container is a package of itself, reached by the name `.`; so nothing can rename
/// or remove it, and what it is made of is reached by its real names.
enum ContainerData {
  static let realName: Name = "."

  private static let omitted: Set<[UInt8]> = [Array("Documents".utf8), Array("\(Staging.name)".utf8)]

  /// What a package of that name does not hold, of all that is in its directory.
  static func omitted(from package: Name) -> Set<[UInt8]> { package == realName ? omitted : [] }

  /// Whether it is shown in a view with these options. Where hidden entries are denied it would give them away, and a
  /// directory in itself has no end.
  static func isShown(by options: ViewOptions) -> Bool {
    options.hidden == .reach && options.packages == .file
  }

  /// The container as an entry of itself; nil when it has no name that can be shown.
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
