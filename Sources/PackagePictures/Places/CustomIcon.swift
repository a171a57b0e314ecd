import MacMetadata

/// The icon that a user gave to a file or a folder: a resource of the file's fork, or of that of the file `Icon\r` in the
/// folder.
enum CustomIcon {
  /// The file in a folder that has the folder's icon.
  static let fileName = "Icon\r"

  /// The content of the `icns` resource; nil where the file has none.
  ///
  /// - Parameters:
  ///   - name: the file.
  ///   - directory: the folder that it is in.
  static func iconFamily(of name: String, in directory: some PackageContents) -> [UInt8]? {
    forks(of: name, in: directory).lazy.compactMap { fork in
      ResourceFork.resource("icns", ResourceFork.customIcon, in: fork).map { Array(fork[$0]) }
    }.first
  }

  /// The resource forks that Linux has of a file: in an attribute, or in an AppleDouble file as macOS or netatalk names it.
  private static func forks(of name: String, in directory: some PackageContents) -> some Sequence<[UInt8]> {
    let attributes = ResourceFork.attributes.lazy.compactMap {
      directory.attribute($0, of: name, limit: ParserLimits.pictureBytes)
    }
    let sidecars = ["._\(name)", ".AppleDouble/\(name)"].lazy.compactMap { path -> [UInt8]? in
      guard let bytes = directory.file(path, limit: ParserLimits.pictureBytes),
        let file = AppleDouble(Array(bytes.prefix(ParserLimits.inputBytes)), fileSize: bytes.count)
      else { return nil }
      return file.resourceFork.map { Array(bytes[$0]) }
    }
    return [AnySequence(attributes), AnySequence(sidecars)].lazy.joined()
  }
}
