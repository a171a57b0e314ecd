import BackingTree
import DisplayNames

/// When a name that is created again gets back the real name that it had before.
package enum TunnelMode: String, Sendable, CaseIterable {
  /// Within the timeout, if the process that made the name go away creates it.
  case process
  /// Within the timeout, for every process.
  case time
  /// Never.
  case off
}

/// Remembers the real name behind a display name that went away, until the name is created again.
///
/// Editors save by renaming or removing the old file and writing a new one under the same name. Through a display name that would
/// lose the extension. Windows had the same problem with its short names and solved it in this way ("file name tunneling",
/// Microsoft KB 172190, which is also the source of the 15 seconds).
///
/// Memory is bounded: the last `capacity` names are kept, each with at most `attributeLimit` bytes of attributes. Every call
/// takes constant time, for `removeAll` amortised over the calls of `record`. Times are nanoseconds of one monotonic clock, which
/// the caller reads. A process is given by its thread group ID; 0 stands for all processes that the daemon cannot identify.
package final class Tunnel: Sendable {
  /// An extended attribute that is kept with the name: its Finder info.
  package struct Attribute: Sendable, Equatable {
    package let name: [UInt8]
    package let value: [UInt8]
    /// The audience of the file that held it; nil where that was the file that it is an attribute of.
    let audience: FileAudience?

    package init(name: [UInt8], value: [UInt8]) { self.init(name: name, value: value, audience: nil) }

    init(name: [UInt8], value: [UInt8], audience: FileAudience?) {
      self.name = name
      self.value = value
      self.audience = audience
    }
  }

  package struct Remembered: Sendable, Equatable {
    package let realName: Name
    /// The attributes, which `user` could read.
    package let attributes: [Attribute]
    package let user: UInt32

    /// What a user gets: the attributes only where it is the one that could read them.
    package func visible(to user: UInt32) -> Remembered {
      user == self.user ? self : Remembered(realName: realName, attributes: [], user: user)
    }
  }

  /// In bytes, names and values of one entry together. Attributes beyond this limit are not remembered.
  package static let attributeLimit = 8192

  private struct Entry: Sendable {
    let directory: UInt64
    let display: Name
    let remembered: Remembered
    let process: Int32
    let since: Int64
  }

  /// The entries in order of insertion, as a ring: a new entry overwrites the oldest one.
  private struct Ring: Sendable {
    var slots: [Entry?] = []
    var next = 0
    var positions: [UInt64: [Name: Int]] = [:]

    func position(_ directory: UInt64, _ display: Name) -> Int? { positions[directory]?[display] }

    mutating func clear(_ position: Int) {
      guard let entry = slots[position] else { return }
      slots[position] = nil
      positions[entry.directory]?[entry.display] = nil
      if positions[entry.directory]?.isEmpty == true { positions[entry.directory] = nil }
    }

    mutating func append(_ entry: Entry, capacity: Int) {
      if let old = position(entry.directory, entry.display) { clear(old) }
      if slots.count < capacity {
        slots.append(entry)
        positions[entry.directory, default: [:]][entry.display] = slots.count - 1
        return
      }
      clear(next)
      slots[next] = entry
      positions[entry.directory, default: [:]][entry.display] = next
      next = (next + 1) % capacity
    }
  }

  private let mode: TunnelMode
  private let timeout: Int64
  private let capacity: Int
  private let ring = Guarded(Ring())

  /// - Parameters:
  ///   - timeout: in seconds; 0 remembers nothing.
  ///   - capacity: the maximum number of remembered names.
  package init(mode: TunnelMode = .process, timeout: UInt64 = 15, capacity: Int = 4096) {
    self.mode = timeout == 0 || capacity <= 0 ? .off : mode
    self.timeout = nanoseconds(ofSeconds: timeout)
    self.capacity = capacity
  }

  /// Records that a name went away from `directory`, where it stood for `real` and had other bytes.
  ///
  /// - Parameters:
  ///   - display: the name, or what equal names have in common: it may be `real` then.
  ///   - attributes: those that `user` may read.
  package func record(
    directory: UInt64, display: Name, real: Name, attributes: [Attribute] = [], user: UInt32, process: Int32,
    now: Int64
  ) {
    guard mode != .off else { return }
    var room = Self.attributeLimit
    let kept = attributes.filter { attribute in
      let size = attribute.name.count + attribute.value.count
      guard size <= room else { return false }
      room -= size
      return true
    }
    let entry = Entry(
      directory: directory, display: display,
      remembered: Remembered(realName: real, attributes: kept, user: user), process: process, since: now)
    ring.withLock { $0.append(entry, capacity: capacity) }
  }

  /// Removes and returns what `display` stood for: the caller is about to create the name again.
  package func take(directory: UInt64, display: Name, process: Int32, now: Int64) -> Remembered? {
    ring.withLock { ring in
      guard let found = match(&ring, directory, display, process, now) else { return nil }
      ring.clear(found.position)
      return found.remembered
    }
  }

  /// What `take` would return, without removing it.
  package func peek(directory: UInt64, display: Name, process: Int32, now: Int64) -> Remembered? {
    ring.withLock { match(&$0, directory, display, process, now)?.remembered }
  }

  /// Drops what is remembered for a name, whatever process it is remembered for.
  package func remove(directory: UInt64, display: Name) {
    ring.withLock { ring in
      if let position = ring.position(directory, display) { ring.clear(position) }
    }
  }

  /// Whether nothing is remembered, so that the process need not be determined.
  package var isEmpty: Bool { ring.withLock { $0.positions.isEmpty } }

  /// Whether anything is remembered for a name, regardless of process and time. A created name almost never has an entry, and
  /// determining the process that creates a file costs more than creating it.
  package func mayRecall(directory: UInt64, display: Name) -> Bool {
    ring.withLock { $0.position(directory, display) != nil }
  }

  /// Drops all entries of a directory that is gone, or whose identity will be used for another directory.
  package func removeAll(in directory: UInt64) {
    ring.withLock { ring in
      for position in (ring.positions.removeValue(forKey: directory) ?? [:]).values {
        ring.slots[position] = nil
      }
    }
  }

  private func match(
    _ ring: inout Ring, _ directory: UInt64, _ display: Name, _ process: Int32, _ now: Int64
  ) -> (position: Int, remembered: Remembered)? {
    guard let position = ring.position(directory, display), let entry = ring.slots[position] else {
      return nil
    }
    guard now - entry.since < timeout else {
      ring.clear(position)
      return nil
    }
    guard mode == .time || entry.process == process else { return nil }
    return (position, entry.remembered)
  }
}
