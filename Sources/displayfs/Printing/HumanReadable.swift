import DisplayNames
import Glibc
import View

/// Sizes and dates for people to read.
enum HumanReadable {
  /// One line for an entry: its size and date, both a hyphen where they cannot be read, its kind, its name and, where it has
  /// another one, its real name.
  ///
  /// - Parameters:
  ///   - name: the display name as it is printed.
  ///   - realName: the real name as it is printed.
  static func line(of entry: Explanation, _ attributes: stat?, name: [UInt8], realName: [UInt8]) -> [UInt8] {
    // A directory's own size says nothing of what is in it.
    let hasSize = entry.kind == .file || entry.kind == .package
    let size = hasSize ? attributes.map { Self.size(Int64($0.st_size)) } : nil
    let fields = [
      padded(size ?? "-", 9, isRight: true), padded(attributes.map { date($0.st_mtim) } ?? "-", 16),
      padded(entry.kind.word + (entry.isHidden ? " (hidden)" : ""), 9),
    ]
    let real = entry.realName == entry.displayName ? [] : Array(" (".utf8) + realName + [0x29]
    return Array((fields.joined(separator: "  ") + "  ").utf8) + name + real
  }

  private static func padded(_ text: String, _ width: Int, isRight: Bool = false) -> String {
    let spaces = String(repeating: " ", count: max(0, width - text.utf8.count))
    return isRight ? spaces + text : text + spaces
  }

  /// A size in decimal units, as the Finder shows it: `517 bytes`, `4 KB`, `1.2 MB`.
  static func size(_ bytes: Int64) -> String {
    if bytes == 1 { return "1 byte" }
    if bytes < 1000 { return "\(bytes) bytes" }
    // Rounded half up. What rounds up to 1000 is one of the next unit.
    if bytes < 999_500 { return "\((bytes + 500) / 1000) KB" }
    var (unit, name) = (Int64(1_000_000), 0)
    var tenths: Int64 { (bytes + unit / 20) / (unit / 10) }
    while tenths >= 10_000, name < units.count - 1 { (unit, name) = (unit * 1000, name + 1) }
    let fraction = tenths % 10 == 0 ? "" : ".\(tenths % 10)"
    return "\(tenths / 10)\(fraction) \(units[name])"
  }

  private static let units = ["MB", "GB", "TB", "PB", "EB"]

  /// A time in the time zone of the environment, as `2026-11-25 20:14`.
  static func date(_ time: timespec) -> String {
    var seconds = time.tv_sec
    var parts = tm()
    localtime_r(&seconds, &parts)
    return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { buffer in
      let count = strftime(buffer.baseAddress!, 64, "%Y-%m-%d %H:%M", &parts)
      return String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
  }
}
