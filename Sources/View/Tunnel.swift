import BackingTree
import DisplayNames

/// When a name that comes back is taken for the one that went away.
public enum TunnelMode: String, Sendable, CaseIterable {
  /// Within the time, and by the process that made it go away.
  case process
  /// Within the time, whoever asks.
  case time
  /// Never.
  case off
}

/// Remembers the real name behind a display name that went away, until the name comes back.
///
/// Editors save by renaming or removing the old file and writing a new one under the same name. Through a display name
/// that would lose the extension; Windows had the same problem with its short names and solved it so ("file name
/// tunneling", Microsoft KB 172190, whose 15 seconds these are).
///
/// Memory is bounded: the last `capacity` names, each with at most `attributeLimit` bytes of attributes. Every call
/// takes constant time, `forget` amortised over the calls of `remember`. Times are nanoseconds of one monotonic
/// clock that the caller reads. A process is its thread group's id; 0 stands for all that the daemon cannot name.
public final class Tunnel: Sendable {
  /// An extended attribute that goes with the name: its Finder info.
  public struct Attribute: Sendable, Equatable {
    public let name: [UInt8]
    public let value: [UInt8]

    public init(name: [UInt8], value: [UInt8]) {
      self.name = name
      self.value = value
    }
  }

  public struct Remembered: Sendable, Equatable {
    public let realName: Name
    public let attributes: [Attribute]
  }

  /// Attributes beyond this many bytes, names and values of one entry together, are not remembered.
  public static let attributeLimit = 8192

  private struct Entry: Sendable {
    let directory: UInt64
    let display: Name
    let remembered: Remembered
    let process: Int32
    let since: Int64
  }

  /// The entries in the order they came, as a ring: the next one overwrites the oldest.
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
  ///   - timeout: seconds; 0 remembers nothing.
  ///   - capacity: how many names are remembered at most.
  public init(mode: TunnelMode = .process, timeout: UInt64 = 15, capacity: Int = 4096) {
    self.mode = timeout == 0 || capacity <= 0 ? .off : mode
    self.timeout = nanoseconds(ofSeconds: timeout)
    self.capacity = capacity
  }

  /// `display` went away from `directory`, where it stood for `real`. A name that hid nothing needs no memory.
  public func remember(
    directory: UInt64, display: Name, real: Name, attributes: [Attribute] = [], process: Int32, now: Int64
  ) {
    guard mode != .off, display != real else { return }
    var room = Self.attributeLimit
    let kept = attributes.filter { attribute in
      let size = attribute.name.count + attribute.value.count
      guard size <= room else { return false }
      room -= size
      return true
    }
    let entry = Entry(
      directory: directory, display: display, remembered: Remembered(realName: real, attributes: kept),
      process: process, since: now)
    ring.withLock { $0.append(entry, capacity: capacity) }
  }

  /// What `display` stood for, once: the caller is about to give the name back.
  public func take(directory: UInt64, display: Name, process: Int32, now: Int64) -> Remembered? {
    ring.withLock { ring in
      guard let found = match(&ring, directory, display, process, now) else { return nil }
      ring.clear(found.position)
      return found.remembered
    }
  }

  /// What `take` would return, without taking it.
  public func peek(directory: UInt64, display: Name, process: Int32, now: Int64) -> Remembered? {
    ring.withLock { match(&$0, directory, display, process, now)?.remembered }
  }

  /// Whether nothing is remembered, so that nobody needs to be asked.
  public var isEmpty: Bool { ring.withLock { $0.positions.isEmpty } }

  /// Whether anything is remembered of a name, by whatever process and however long ago: what is created almost never has
  /// such a name, and to find out which process creates it costs more than to create it.
  public func mayRecall(directory: UInt64, display: Name) -> Bool {
    ring.withLock { $0.position(directory, display) != nil }
  }

  /// The directory is gone, or its identity will be used again for another.
  public func forget(directory: UInt64) {
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
