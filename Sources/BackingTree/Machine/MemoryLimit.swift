import Glibc

/// The memory that the process may use. (cgroups(7), `memory.max` and `memory.high`, in version 1 `memory.limit_in_bytes`)
public enum MemoryLimit {
  /// In bytes: the machine's memory, or the least limit of the process' control group and those above it.
  public static func current() -> UInt64 {
    let machine = UInt64(max(0, sysconf(Int32(_SC_PHYS_PAGES)))) * UInt64(getpagesize())
    let directory = Directory(descriptor: AT_FDCWD)
    let groups = String(decoding: directory.wholeFile("/proc/self/cgroup") ?? [], as: UTF8.self)
    return limits(of: groups) { path in
      directory.wholeFile(path).map { String(decoding: $0, as: UTF8.self) }
    }.reduce(machine, min)
  }

  /// - Parameters:
  ///   - groups: the text of `/proc/self/cgroup`.
  ///   - read: the text of a file; nil where it cannot be read.
  static func limits(of groups: String, _ read: (String) -> String?) -> [UInt64] {
    // By scalars: users name groups, and a combining mark makes another character of itself and the sign before it.
    groups.unicodeScalars.split(separator: "\n").flatMap { line -> [UInt64] in
      let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { return [] }
      switch (String(fields[0]), String(fields[1])) {
      case ("0", ""):
        return limits(at: fields[2], of: ["memory.max", "memory.high"], below: "/sys/fs/cgroup", read)
      case (_, "memory"):
        return limits(at: fields[2], of: ["memory.limit_in_bytes"], below: "/sys/fs/cgroup/memory", read)
      default: return []
      }
    }
  }

  /// The limits of a group and of all above it. `max`, for none, is no number.
  private static func limits(
    at path: Substring.UnicodeScalarView, of files: [String], below root: String, _ read: (String) -> String?
  ) -> [UInt64] {
    var components = path.split(separator: "/").map { String($0) }
    var limits: [UInt64] = []
    while true {
      let directory = ([root] + components).joined(separator: "/")
      limits += files.compactMap { read("\(directory)/\($0)").flatMap { UInt64($0.prefix { $0.isNumber }) } }
      if components.popLast() == nil { return limits }
    }
  }
}
