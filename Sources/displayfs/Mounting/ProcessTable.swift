import BackingTree
import Glibc

/// Information about processes from /proc.
enum ProcessTable {
  static var all: [pid_t] { numbers(in: "/proc") }

  /// The name of a process, and the letter of its state (proc_pid_stat(5)); nil if there is no such process.
  static func nameAndState(of process: pid_t) -> (name: String, state: Character)? {
    // PID (NAME) STATE ...; a name may contain any character, parentheses too.
    guard let bytes = Directory(descriptor: AT_FDCWD).wholeFile("/proc/\(process)/stat"),
      let start = bytes.firstIndex(of: UInt8(ascii: "(")), let end = bytes.lastIndex(of: UInt8(ascii: ")")),
      start < end, end + 2 < bytes.count
    else { return nil }
    return (Text.lossy(Array(bytes[(start + 1)..<end])), Character(UnicodeScalar(bytes[end + 2])))
  }

  static func threads(of process: pid_t) -> [pid_t] { numbers(in: "/proc/\(process)/task") }

  /// Whether /proc/PID/fdinfo has the line for any open file of a process.
  ///
  /// - Parameter process: its number, or that of one of its threads, as a path in /proc: `PID` or `PID/task/TID`.
  static func hasOpen(_ line: [UInt8], _ process: String) -> Bool {
    let directory = "/proc/\(process)/fdinfo"
    return numbers(in: directory).contains { number in
      Directory(descriptor: AT_FDCWD).wholeFile("\(directory)/\(number)")?.contains(line) ?? false
    }
  }

  private static func numbers(in path: String) -> [pid_t] {
    guard let directory = opendir(path) else { return [] }
    defer { closedir(directory) }
    var numbers: [pid_t] = []
    while let entry = readdir(directory) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if let number = pid_t(name) { numbers.append(number) }
    }
    return numbers
  }
}
