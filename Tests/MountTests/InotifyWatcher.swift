import Glibc
import SystemPackage

/// The events that `inotify` reports of some directories, as words: `create letter`, `from notes`, `to other`.
final class InotifyWatcher {
  private let descriptor = inotify_init1(CInt(0o4000 | 0o2000000))  // IN_NONBLOCK | IN_CLOEXEC
  private var cookies: [UInt32: [String]] = [:]
  private(set) var reportedEvents: [String] = []

  init(_ paths: String...) throws {
    // Attributes, closed after writing, moved from, moved to, create, delete.
    for path in paths where inotify_add_watch(descriptor, path, 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200) < 0 {
      throw Errno(rawValue: errno)
    }
  }

  deinit { close(descriptor) }

  /// Whether all of `expected` are reported in time.
  func reportsChanges(_ expected: String..., within bound: Duration = .atOnce) -> Bool {
    let deadline = ContinuousClock.now + bound
    while !Set(reportedEvents).isSuperset(of: expected), ContinuousClock.now < deadline { readEvents() }
    return Set(reportedEvents).isSuperset(of: expected)
  }

  /// The names that the events so far leave of these, as a window keeps them.
  func names(from listing: Set<String>) -> Set<String> {
    readEvents()
    return reportedEvents.reduce(into: listing) { names, event in
      let parts = event.split(separator: " ", maxSplits: 1)
      switch parts[0] {
      case "create", "to": names.insert(String(parts[1]))
      case "delete", "from": names.remove(String(parts[1]))
      default: break
      }
    }
  }

  /// Begins anew.
  func reset() { reportedEvents = [] }

  /// Whether both names belong to one rename.
  func isOneRename(_ old: String, _ new: String) -> Bool {
    cookies.values.contains { $0 == ["from \(old)", "to \(new)"] }
  }

  private func readEvents() {
    var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    poll(&waiting, 1, 100)
    var buffer = [UInt8](repeating: 0, count: 16384)
    let count = read(descriptor, &buffer, buffer.count)
    var offset = 0
    while offset + 16 <= count {
      func word(_ at: Int) -> UInt32 {
        buffer.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset + at, as: UInt32.self) }
      }
      let length = Int(word(12))
      let name = String(
        decoding: buffer[(offset + 16)..<(offset + 16 + length)].prefix { $0 != 0 }, as: UTF8.self)
      let words: [(UInt32, String)] = [
        (0x4, "attributes"), (0x8, "written"), (0x40, "from"), (0x80, "to"), (0x100, "create"),
        (0x200, "delete"),
      ]
      for (bit, text) in words where word(4) & bit != 0 {
        reportedEvents.append("\(text) \(name)")
        if word(8) != 0 { cookies[word(8), default: []].append("\(text) \(name)") }
      }
      offset += 16 + length
    }
  }
}
