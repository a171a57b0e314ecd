import BackingTree
import Glibc

/// The mounts of this process's namespace, from `/proc/self/mountinfo`.
struct MountTable {
  struct Line {
    let mountPoint: String
    let type: String
    let source: String
  }

  static var current: [Line] {
    guard let bytes = Directory(descriptor: AT_FDCWD).wholeFile("/proc/self/mountinfo") else { return [] }
    return String(decoding: bytes, as: UTF8.self).split(separator: "\n").compactMap { line in
      let fields = line.split(separator: " ")
      guard let dash = fields.firstIndex(of: "-"), fields.count > dash + 2, fields.count > 4 else {
        return nil
      }
      return Line(
        mountPoint: unescape(fields[4]), type: String(fields[dash + 1]), source: unescape(fields[dash + 2]))
    }
  }

  /// Blanks and the like stand as `\040`.
  private static func unescape(_ field: Substring) -> String {
    var bytes: [UInt8] = []
    var rest = Array(field.utf8)[...]
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "\\"), rest.count >= 3,
        let value = UInt8(String(decoding: rest.prefix(3), as: UTF8.self), radix: 8)
      {
        bytes.append(value)
        rest = rest.dropFirst(3)
      } else {
        bytes.append(byte)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
