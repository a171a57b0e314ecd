import BackingTree
import Glibc
import PackagePictures
import SystemPackage

/// Where the picture of a path is looked for.
enum PictureSource {
  /// The pictures of a path, the most wanted first; none where it has none.
  ///
  /// A package of a mounted view is read as the directory that it is, if this process can reach it: by the real name, or in the
  /// backing tree. Otherwise, as in the sandbox in which GNOME runs thumbnailers, its stream is read.
  ///
  /// - Throws: when there is no such entry, or it cannot be opened.
  static func pictures(of path: FilePath, size: Int) throws(Failure) -> [[UInt8]] {
    do throws(Errno) {
      if isDirectory(path) { return PackagePicture.pictures(of: .directory(path), size: size) }
      // Elsewhere anyone may have given a file the attributes by which a view reports.
      let realName = MountQuery.isInView(path) ? MountQuery.of("realname", path) : nil
      if let realName, let directory = directory(ofPackage: path, realName: realName) {
        return PackagePicture.pictures(of: .directory(directory), size: size)
      }
      let opened = try systemCall { path.withPlatformString { open($0, O_RDONLY | O_CLOEXEC | O_NONBLOCK) } }
      let file = Descriptor(adopting: opened)
      let ofPackage = PackagePicture.pictures(of: .stream(file.rawValue), size: size)
      guard ofPackage.isEmpty, let name = realName ?? path.lastComponent?.bytes else { return ofPackage }
      let place = PackagePicture.Place.file(FilePath(bytes: name), in: directory(around: path))
      return PackagePicture.pictures(of: place, size: size)
    } catch { throw Failure(.system, "\(path): \(error)") }
  }

  /// The directory that a file of a mounted view stands for; nil where it is no package, or the directory is out of reach.
  private static func directory(ofPackage path: FilePath, realName: [UInt8]) -> FilePath? {
    guard let kind = MountQuery.of("kind", path), kind.elementsEqual("package".utf8) else { return nil }
    let sibling = FilePath(bytes: directory(around: path).bytes + [0x2f] + realName)
    if isDirectory(sibling) { return sibling }
    return MountQuery.of("realpath", path).map { FilePath(bytes: $0) }.flatMap { isDirectory($0) ? $0 : nil }
  }

  private static func directory(around path: FilePath) -> FilePath {
    FilePath(".").pushing(path).removingLastComponent()
  }

  private static func isDirectory(_ path: FilePath) -> Bool { (try? path.stat())?.type == .directory }
}
