import BackingTree
import CLinux
import DisplayNames
import FuseServer
import Glibc
import SystemPackage
import View

/// Queries a mounted view about one of its files, through the extended attributes `user.displayfs.*`.
enum MountQuery {
  /// Returns one value. Nil if the path does not lie in a mounted view, or is a symlink or special file: these have no such
  /// attributes.
  static func of(_ attribute: String, _ path: FilePath) -> [UInt8]? {
    let value = [UInt8](unsafeUninitializedCapacity: 8192) { buffer, count in
      count = max(
        0,
        path.withPlatformString {
          lgetxattr($0, "user.displayfs.\(attribute)", buffer.baseAddress, buffer.count)
        })
    }
    return value.isEmpty ? nil : value
  }

  /// Requires a reply of the daemon at a mount point. Neither the daemon nor the kernel needs anything of the backing tree for it.
  ///
  /// - Throws: the error of the call. Where no daemon is left, that is the kernel's.
  static func requireReply(_ mountPoint: FilePath) throws(Errno) {
    _ = try systemCall {
      mountPoint.withPlatformString { lgetxattr($0, Statistics.unrestrictedAttribute, nil, 0) }
    }
  }

  /// Returns all values; nil if the path does not lie in a mounted view.
  ///
  /// - Throws: if the path lies in a mounted view that returns no values for it.
  static func explanation(_ path: FilePath) throws(Failure) -> Explanation? {
    // The same calls as below: the kernel may reply to one from its caches and need the daemon for the next.
    try MountState.expectReply(path) { (path) throws(Errno) in
      _ = try path.stat(followTargetSymlink: false)
      _ = of("realname", path)
    }
    // On another file system anybody may have set attributes of these names.
    guard let status = try? path.stat(followTargetSymlink: false), isInView(UInt64(status.deviceID.rawValue))
    else { return nil }
    if let values = values(path) { return values }
    let error = Errno(rawValue: errno)
    if [.directory, .regular].contains(status.type) { throw Failure(.system, "\(path): \(error)") }
    let directory = FilePath(".").pushing(path).removingLastComponent()
    let place = of("realpath", directory).map { Name($0).description } ?? "the backing tree"
    throw Failure(
      .system,
      "\(path): a mounted view reports on files and directories only; use the path of the entry in \(place)")
  }

  /// What the mounted view that a path lies in says beside its names; nil if the path does not lie in one.
  static func details(_ path: FilePath) -> EntryDetails? {
    guard let type = of("type", path), let mimeType = of("mimetype", path), let backup = of("backup", path)
    else { return nil }
    return EntryDetails(
      contentType: ContentType(identifier: Text.lossy(type), mimeType: Text.lossy(mimeType)),
      purpose: of("purpose", path).map(Text.lossy), isBackedUp: backup.elementsEqual("true".utf8))
  }

  /// Whether a path, or what a symlink there leads to, lies in a mounted view.
  static func isInView(_ path: FilePath) -> Bool {
    (try? path.stat()).map { isInView(UInt64($0.deviceID.rawValue)) } ?? false
  }

  /// Whether a device is that of a mounted view.
  private static func isInView(_ device: UInt64) -> Bool {
    MountTable.displayfs.contains { $0.isFileSystem(of: device) }
  }

  private static func values(_ path: FilePath) -> Explanation? {
    guard let realName = of("realname", path), let realPath = of("realpath", path),
      let displayName = of("displayname", path), let word = of("kind", path), let hidden = of("hidden", path),
      let reason = of("reason", path)
    else { return nil }
    let kind = EntryKind.allCases.first { word.elementsEqual($0.word.utf8) } ?? .other
    return Explanation(
      realName: Name(realName), realPath: realPath, displayName: Name(displayName), kind: kind,
      isHidden: hidden.elementsEqual("true".utf8), reason: Text.lossy(reason))
  }
}
