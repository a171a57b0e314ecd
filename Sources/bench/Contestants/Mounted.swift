import Glibc

/// A contestant that is ready.
struct Mounted {
  let root: String
  let source: String
  let secondsToMount: Double
  /// Counts the requests of this mount; nil in rounds that are timed.
  var counter: RequestCounter?

  static func isMounted(_ path: String) -> Bool {
    text("/proc/self/mountinfo")?.contains(" \(path) ") ?? false
  }

  /// Runs `body`, as often as it takes for `seconds` to be over.
  ///
  /// - Parameters:
  ///   - count: how many operations one run of it is.
  ///   - amount: how much of the workload's unit one operation is.
  func measure(
    _ count: Int, of amount: Double = 1, lasting seconds: Double = 0, _ body: () throws -> Void
  ) rethrows -> Measurement {
    let requests = counter?.count
    let start = now()
    var done = 0
    var elapsed: Double
    repeat {
      try body()
      done += count
      elapsed = now() - start
    } while elapsed < seconds
    let sent = counter.flatMap { counter in requests.map { counter.count - $0 } }
    return Measurement(
      value: Double(done) * amount / elapsed, secondsPerOperation: elapsed / Double(done),
      requestsPerOperation: sent.map { Double($0) / Double(done) })
  }

  /// The resident memory of the daemon in bytes; nil where there is none. Its last argument is the mount point.
  var memory: Double? {
    guard root != source, let directory = opendir("/proc") else { return nil }
    defer { closedir(directory) }
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
      }
      guard Int(name) != nil, text("/proc/\(name)/cmdline")?.hasSuffix("\0\(root)\0") == true,
        let line = text("/proc/\(name)/status")?.split(separator: "\n").first(where: {
          $0.hasPrefix("VmRSS:")
        }),
        let kilobytes = Double(line.split(whereSeparator: \.isWhitespace)[1])
      else { continue }
      return kilobytes * 1024
    }
    return nil
  }

  func unmount() {
    guard root != source else { return }
    for attempt in 0..<100 where Self.isMounted(root) {
      if Program.run(["fusermount3", attempt < 98 ? "-u" : "-uz", root]) != 0 { usleep(50_000) }
    }
  }
}
