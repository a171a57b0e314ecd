import CFuse
import Glibc

/// What a mounted view answers about one of its files, through the extended attributes `user.displayfs.*`.
enum MountedAnswer {
  /// Nil when the path does not lie in a mounted view.
  static func of(_ question: String, _ path: String) -> [UInt8]? {
    let value = [UInt8](unsafeUninitializedCapacity: 8192) { buffer, count in
      count = max(0, lgetxattr(path, "user.displayfs.\(question)", buffer.baseAddress, buffer.count))
    }
    return value.isEmpty ? nil : value
  }
}
