import Glibc

/// Counts the requests that the kernel sends to the server of one mount, whichever it is: by the event fuse:fuse_request_send
/// (Linux 6.10 or newer) in an instance of tracefs of its own.
///
/// FORGET and INTERRUPT, which have no reply, are not among them; requests for which no program waits, such as RELEASE and
/// READ ahead, are.
final class RequestCounter {
  // Root opens them all; a thread that has become the user of the mount uses them.
  private let filter: CInt
  private let enable: CInt
  /// The statistics of each processor's buffer.
  private let statistics: [CInt]

  /// - Throws: where the kernel has no such event, or only root may see it.
  init(_ work: Scratch) throws {
    guard Account.isRoot else { throw Problem("only root can do that") }
    if Program.run(["mount", "-t", "tracefs", "bench", work.tracing]) != 0 {
      throw Problem("tracefs cannot be mounted")
    }
    let event = "events/fuse/fuse_request_send"
    guard access("\(work.tracing)/\(event)", F_OK) == 0 else {
      throw Problem("this kernel has no event fuse:fuse_request_send, which came with Linux 6.10")
    }
    let instance = Self.instance(in: work)
    try Files.mustSucceed(mkdir(instance, 0o755), instance)
    // The event carries nothing that is needed: the smallest buffer will do, as what is overwritten is counted as well.
    try write("1\n", to: "\(instance)/buffer_size_kb")
    filter = try Files.open("\(instance)/\(event)/filter", O_WRONLY)
    enable = try Files.open("\(instance)/\(event)/enable", O_WRONLY)
    statistics = try (0..<sysconf(CInt(_SC_NPROCESSORS_CONF))).map { processor in
      try Files.open("\(instance)/per_cpu/cpu\(processor)/stats", O_RDONLY)
    }
  }

  /// The instance can be removed only when none of its files is open.
  deinit {
    for file in [filter, enable] + statistics { close(file) }
  }

  private static func instance(in work: Scratch) -> String {
    "\(work.tracing)/instances/displayfs-bench-\(getpid())"
  }

  /// A shell script that removes the instance.
  static func removal(in work: Scratch) -> String {
    "if [ -d '\(instance(in: work))' ]; then rmdir '\(instance(in: work))'; fi"
  }

  /// Counts those of one mount from now on.
  func begin(_ mountPoint: String) throws {
    guard let connection = Self.connection(mountPoint) else {
      throw Problem("\(mountPoint) is no FUSE mount")
    }
    try Self.set(filter, "connection == \(connection)\n")
    try Self.set(enable, "1\n")
  }

  func end() { try? Self.set(enable, "0\n") }

  private static func set(_ file: CInt, _ text: String) throws {
    let bytes = Array(text.utf8)
    if pwrite(file, bytes, bytes.count, 0) != bytes.count {
      throw Problem.system("setting `\(text.dropLast())`")
    }
  }

  /// How many there have been, of all mounts that were counted.
  var count: Int { statistics.reduce(0) { $0 + Self.events(in: $1) } }

  /// Those that are in the buffer of a processor and those that were overwritten there.
  private static func events(in statistics: CInt) -> Int {
    var buffer = [UInt8](repeating: 0, count: 1024)
    let size = pread(statistics, &buffer, buffer.count, 0)
    let lines = String(decoding: buffer.prefix(max(0, size)), as: UTF8.self).split(separator: "\n")
    return lines.reduce(0) { sum, line in
      let parts = line.split(separator: ":")
      guard parts.count == 2, ["entries", "overrun", "dropped events"].contains(parts[0]) else { return sum }
      return sum + (Int(parts[1].drop { $0 == " " }) ?? 0)
    }
  }

  /// The number of the device, as the kernel's own `dev_t`: `fuse_conn.dev`.
  private static func connection(_ mountPoint: String) -> Int? {
    let line = text("/proc/self/mountinfo")?.split(separator: "\n").last { $0.contains(" \(mountPoint) ") }
    guard let device = line?.split(separator: " ")[2].split(separator: ":").compactMap({ Int($0) }),
      device.count == 2
    else {
      return nil
    }
    return device[0] << 20 | device[1]
  }
}
