/// The type of what an entry holds, as a Mac and as Linux name it.
public struct ContentType: Hashable, Sendable {
  /// The uniform type identifier, such as `com.adobe.pdf`.
  public let identifier: String
  /// The MIME type, such as `application/pdf`. (freedesktop.org shared MIME-info)
  public let mimeType: String

  package init(identifier: String, mimeType: String) {
    self.identifier = identifier
    self.mimeType = mimeType
  }

  /// The type of an entry by its name and kind; contents are not read.
  ///
  /// - Parameters:
  ///   - declared: the identifier that an application declares for the name's extension; nil if none does.
  ///   - globs: the names that the shared MIME database knows.
  package static func of(
    _ name: Name, _ kind: EntryKind, declared: String?, packageTypes: PackageTypes, globs: MIMEGlobs
  ) -> ContentType {
    switch kind {
    case .directory: return ContentType(identifier: "public.folder", mimeType: "inode/directory")
    case .alias: return ContentType(identifier: "com.apple.alias-file", mimeType: "inode/symlink")
    case .symlink: return ContentType(identifier: "public.symlink", mimeType: "inode/symlink")
    // Pipes, sockets and devices: neither system has a type for a name of one.
    case .other: return ContentType(identifier: "public.item", mimeType: "application/octet-stream")
    case .package:
      let type = packageTypes.type(of: name.bytes.span) ?? .byBundleBit
      return ContentType(identifier: declared ?? type.uti, mimeType: "application/x-displayfs-package")
    case .file:
      let mimeType = globs.type(of: name)
      let identifier =
        declared ?? mimeType.flatMap { UniformTypes.identifier(ofMIMEType: $0) } ?? "public.data"
      return ContentType(identifier: identifier, mimeType: mimeType ?? "application/octet-stream")
    }
  }
}
