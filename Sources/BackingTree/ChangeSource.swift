import Glibc
import SystemPackage

/// The kernel's interface through which it tells of changes in directories.
protocol ChangeSource: Sendable {
  /// Readable when there are events.
  var queue: CInt { get }

  /// Whether an event says if this process caused it.
  var tellsWho: Bool { get }

  /// Has the kernel tell of a directory, from when this returns at the latest. The same directory has the same number as long
  /// as it is not removed. One thread at a time adds and removes.
  func add(_ directory: Directory) throws(Errno) -> ChangeEvent.Number

  func remove(_ number: ChangeEvent.Number)

  /// Leaves out that an open file is written to, or tells of that again; of its being closed it is told all the same.
  ///
  /// - Throws: EOPNOTSUPP where that cannot be had.
  func ignoreWriting(to file: CInt, _ isIgnored: Bool) throws(Errno)

  /// Reads all events that the kernel has queued until now.
  func read(_ body: (ChangeEvent) -> Void)
}

/// What the kernel tells of a directory.
struct ChangeEvent {
  /// A watched directory.
  typealias Number = Int32

  enum Kind {
    /// Something happened to an entry, or to the directory itself where there is no name.
    case change
    /// Events were lost, of whatever directory.
    case overflow
    /// The directory is not watched any more: it is gone, or was removed.
    case end
  }

  /// inotify and fanotify have the same bits.
  struct Mask: OptionSet {
    let rawValue: UInt32
    static let modified = Mask(rawValue: UInt32(IN_MODIFY))
    static let attributes = Mask(rawValue: UInt32(IN_ATTRIB))
    static let written = Mask(rawValue: UInt32(IN_CLOSE_WRITE))
    static let movedAway = Mask(rawValue: UInt32(IN_MOVED_FROM))
    static let movedHere = Mask(rawValue: UInt32(IN_MOVED_TO))
    static let made = Mask(rawValue: UInt32(IN_CREATE))
    static let removed = Mask(rawValue: UInt32(IN_DELETE))
    static let moved: Mask = [movedAway, movedHere]
    static let names: Mask = [moved, made, removed]
    /// What is asked for.
    static let all: Mask = [modified, attributes, written, names]
  }

  var kind = Kind.change
  var number: Number = 0
  var mask: Mask = []
  /// Valid while the event is delivered.
  var name: UnsafePointer<CChar>?
  /// Whether this process caused it. Of what the kernel writes by itself for a program it does not.
  var isOwn = false
}
