import BackingTree
import Glibc
import MacMetadata
import SystemPackage

/// The picture that a package, a folder or a file carries of itself, as encoded pictures to be tried one after the other.
///
/// Everything read here is data of the volume. It is parsed with limits, and decoded elsewhere (`PictureDecoder`).
public enum PackagePicture {
  /// What the picture is looked for in.
  public enum Place {
    /// A package or a folder.
    case directory(FilePath)
    /// A package's stream, by a descriptor that is open for reading.
    case stream(CInt)
    /// A file, by its directory and its real name.
    case file(FilePath, in: FilePath)
  }

  /// The most pictures that are returned: each that cannot be decoded costs a process.
  private static let largestCount = 4

  /// The pictures, the most wanted first: an icon that a user gave it, an application's icon, a document's preview.
  ///
  /// - Parameter size: the pixels of the longer side that are wanted.
  /// - Returns: PNG, JPEG, TIFF and JPEG 2000, at most 16 MiB each.
  public static func pictures(of place: Place, size: Int) -> [[UInt8]] {
    switch place {
    case .directory(let path):
      return (try? DirectoryContents(path)).map { pictures(in: $0, size: size) } ?? []
    case .stream(let descriptor):
      return (try? StreamContents(descriptor)).map { pictures(in: $0, size: size) } ?? []
    case .file(let name, let directory):
      guard let contents = try? DirectoryContents(directory) else { return [] }
      let icon = CustomIcon.iconFamily(of: name.string, in: contents)
      return icon.map { iconPictures($0, size: size) } ?? []
    }
  }

  static func pictures(in contents: some PackageContents, size: Int) -> [[UInt8]] {
    let custom = CustomIcon.iconFamily(of: CustomIcon.fileName, in: contents).map {
      iconPictures($0, size: size)
    }
    var found = custom ?? []
    if found.isEmpty { found = bundleIcons(in: contents, size: size) }
    if found.isEmpty { found = previews(in: contents, size: size) }
    return Array(found.prefix(largestCount))
  }

  private static func bundleIcons(in contents: some PackageContents, size: Int) -> [[UInt8]] {
    for (list, resources) in BundleIcons.layouts {
      guard let bytes = contents.file(list, limit: ParserLimits.inputBytes), let info = BundleInfo(bytes)
      else { continue }
      let files = BundleIcons.files(info.iconNames, among: contents.names(in: resources))
      let paths = files.map { PackagePath.joined(resources, $0) }
      for path in paths where path.lowercased().hasSuffix(".icns") {
        if let icon = contents.file(path, limit: ParserLimits.pictureBytes).map({
          iconPictures($0, size: size)
        }), !icon.isEmpty {
          return icon
        }
      }
      return encodedPictures(paths, in: contents, size: size)
    }
    return []
  }

  private static func previews(in contents: some PackageContents, size: Int) -> [[UInt8]] {
    let paths = PreviewPlaces.known.flatMap { directory, names in
      PreviewPlaces.files(names, among: contents.names(in: directory)).map {
        PackagePath.joined(directory, $0)
      }
    }
    return encodedPictures(paths, in: contents, size: size)
  }

  private static func iconPictures(_ bytes: [UInt8], size: Int) -> [[UInt8]] {
    guard let family = IconFamily(bytes) else { return [] }
    let order = PictureChoice.order(family.icons.map(\.side), for: size)
    return order.prefix(largestCount).compactMap { index in
      switch family.picture(of: family.icons[index]) {
      case .encoded(let bytes): bytes
      case .bitmap(let bitmap): PNG.encoded(bitmap)
      case nil: nil
      }
    }
  }

  /// Those of the files that are pictures, in the order in which they fit a size.
  private static func encodedPictures(
    _ paths: [String], in contents: some PackageContents, size: Int
  ) -> [[UInt8]] {
    // The size of a JPEG stands behind its metadata.
    let beginning = 256 << 10
    let pictures = paths.prefix(2 * largestCount).compactMap { path in
      contents.beginning(of: path, length: beginning).flatMap { PictureHeader($0) }.map { (path, $0.side) }
    }
    return PictureChoice.order(pictures.map(\.1), for: size).prefix(largestCount).compactMap {
      contents.file(pictures[$0].0, limit: ParserLimits.pictureBytes)
    }
  }
}
