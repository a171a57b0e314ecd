import BackingTree
import Glibc

/// Information about processes from /proc.
enum ProcessTable {
  static var all: [pid_t] { numbers(in: "/proc") }

  /// The name of a process, and the letter of its state; nil if there is no such process.
  ///
  /// From /proc/PID/status (proc_pid_status(5)). To read `stat`, or the links `cwd` and `exe`, of a process that is stuck in
  /// execve(2), closing a file on a mount that does not reply, would block.
  static func nameAndState(of process: pid_t) -> (name: String, state: Character)? {
    guard let bytes = Directory(descriptor: AT_FDCWD).wholeFile("/proc/\(process)/status") else { return nil }
    let lines = bytes.split(separator: UInt8(ascii: "\n"))
    func value(_ key: String) -> ArraySlice<UInt8>? {
      let start = Array("\(key):\t".utf8)
      return lines.first { $0.starts(with: start) }?.dropFirst(start.count)
    }
    guard let name = value("Name"), let state = value("State")?.first else { return nil }
    return (Text.lossy(Array(name)), Character(UnicodeScalar(state)))
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
