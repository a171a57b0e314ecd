import BackingTree
import Glibc
import SystemPackage

/// Who keeps a mount busy, as far as this user may know: as fuser(1) lists them.
struct Holders {
  struct Holder {
    let process: pid_t
    let name: String
    let held: String
  }

  private let found: [Holder]

  /// Looks through the processes without asking the mount. One that waits in the kernel is passed over: what waits for a
  /// mount that does not answer must not have us wait too.
  init(of mount: MountTable.Line) {
    var found: [Holder] = []
    for process in Self.numbers(in: "/proc") where process != getpid() {
      guard let (name, state) = Self.nameAndState(of: process), state != "D", state != "Z",
        let held = Self.held(by: process, of: mount)
      else { continue }
      found.append(Holder(process: process, name: name, held: held))
    }
    self.found = found.sorted { $0.process < $1.process }
  }

  /// Who holds what, in words: the first few of them; nil when none is found.
  var sentence: String? {
    if found.isEmpty { return nil }
    let named = found.prefix(5).map { "\($0.name) (\($0.process)) has \($0.held) there" }
    let rest = found.count > 5 ? ["\(found.count - 5) more"] : []
    return (named + rest).joined(separator: ", ")
  }

  private static func held(by process: pid_t, of mount: MountTable.Line) -> String? {
    if isBelow(mount.mountPoint, "/proc/\(process)/cwd") { return "its working directory" }
    if isBelow(mount.mountPoint, "/proc/\(process)/root") { return "its root directory" }
    if isBelow(mount.mountPoint, "/proc/\(process)/exe") { return "its program" }
    let mark = Array("mnt_id:\t\(mount.id)\n".utf8)
    let isOpen = numbers(in: "/proc/\(process)/fdinfo").contains { number in
      Directory(descriptor: AT_FDCWD).wholeFile("/proc/\(process)/fdinfo/\(number)")?.contains(mark) ?? false
    }
    return isOpen ? "a file open" : nil
  }

  private static func isBelow(_ mountPoint: FilePath, _ link: String) -> Bool {
    guard let target = try? Directory(descriptor: AT_FDCWD).symlinkTarget(link) else { return false }
    let path = mountPoint.bytes
    return target == path || target.starts(with: path + [0x2f])
  }

  private static func nameAndState(of process: pid_t) -> (name: String, state: Character)? {
    // PID (NAME) STATE ...; a name may hold anything, parentheses too.
    guard let bytes = Directory(descriptor: AT_FDCWD).wholeFile("/proc/\(process)/stat"),
      let start = bytes.firstIndex(of: UInt8(ascii: "(")), let end = bytes.lastIndex(of: UInt8(ascii: ")")),
      start < end, end + 2 < bytes.count
    else { return nil }
    return (Text.lossy(Array(bytes[(start + 1)..<end])), Character(UnicodeScalar(bytes[end + 2])))
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
