import CFuse
import DisplayNames
import Glibc
import SystemPackage
import View

/// What a mounted view answers about one of its files, through the extended attributes `user.displayfs.*`.
enum MountedAnswer {
  /// Nil when the path does not lie in a mounted view, or is a symlink or special file, which have no such attributes.
  static func of(_ question: String, _ path: FilePath) -> [UInt8]? {
    let value = [UInt8](unsafeUninitializedCapacity: 8192) { buffer, count in
      count = max(
        0,
        path.withPlatformString {
          lgetxattr($0, "user.displayfs.\(question)", buffer.baseAddress, buffer.count)
        })
    }
    return value.isEmpty ? nil : value
  }

  /// All answers at once.
  static func explanation(_ path: FilePath) -> Explanation? {
    guard let realName = of("realname", path), let realPath = of("realpath", path),
      let displayName = of("displayname", path), let kind = of("kind", path), let hidden = of("hidden", path),
      let reason = of("reason", path)
    else { return nil }
    return Explanation(
      realName: Name(realName), realPath: realPath, displayName: Name(displayName), kind: Text.lossy(kind),
      isHidden: hidden.elementsEqual("true".utf8), reason: Text.lossy(reason))
  }
}
