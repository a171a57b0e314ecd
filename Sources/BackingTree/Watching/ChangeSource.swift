import CLinux
import Glibc
import SystemPackage

/// A kernel interface that reports changes in directories: inotify or fanotify.
protocol ChangeSource: Sendable {
  /// The descriptor of the event queue, readable when events are queued.
  var queue: CInt { get }

  /// Whether an event says if this process caused it.
  var reportsPID: Bool { get }

  /// Whether the kernel sets no limit to the number of watches.
  var isUnlimited: Bool { get }

  /// Watches a directory. Changes are reported from when this returns at the latest. A directory keeps its number until it is
  /// removed. Only one thread at a time may add and remove.
  ///
  /// - Parameter device: the device number of its file system, if the caller knows it.
  func add(_ directory: Directory, on device: UInt64?) throws(Errno) -> ChangeEvent.Number

  func remove(_ number: ChangeEvent.Number)

  /// Suppresses the reports of writes to an open file, or restores them. Closing the file is reported in both cases.
  ///
  /// - Throws: EOPNOTSUPP where the interface cannot do that.
  func suppressModifications(of file: CInt, _ isSuppressed: Bool) throws(Errno)

  /// Reads all events that are queued at the time of the call.
  ///
  /// - Parameter buffer: room for events, aligned to eight bytes.
  func read(into buffer: UnsafeMutableRawBufferPointer, _ body: (ChangeEvent) -> Void)
}

/// A directory of which an event gives only the handle.
public struct ReportedDirectory {
  public let identity: FileIdentity
  fileprivate let descriptor: CInt

  /// - Parameter directory: open as long as this value is used.
  /// - Throws: the error of fstat(2).
  init(_ directory: borrowing Descriptor) throws(Errno) {
    descriptor = directory.rawValue
    identity = FileIdentity(try fileStatus(descriptor))
  }

  /// The directory that it lies in, and its name there; nil where a file system is mounted on that directory, which must not be
  /// reached: its server may wait for the calling thread. (`openat2`, RESOLVE_NO_XDEV; `/proc/self/fd`)
  public var place: (parent: FileIdentity, name: [UInt8])? {
    let parent = Descriptor(adopting: dfs_open_parent(descriptor))
    guard parent.rawValue >= 0, let status = try? fileStatus(parent.rawValue),
      let path = try? Directory(descriptor: AT_FDCWD).symlinkTarget("/proc/self/fd/\(descriptor)"),
      let name = path.split(separator: UInt8(ascii: "/")).last
    else { return nil }
    return (FileIdentity(status), Array(name))
  }
}

/// A change in a directory as reported by the kernel.
struct ChangeEvent {
  /// The number of a watched directory.
  typealias Number = Int32

  enum Kind {
    /// An entry changed, or the directory itself when there is no name.
    case change
    /// The queue overflowed. Events of any directory may be lost.
    case overflow
    /// The directory is no longer watched: it was deleted, or its watch was removed.
    case end
    /// The attributes of a directory changed that is not watched itself, but lies in one that is. It has no number. (fanotify)
    case unwatched
  }

  /// The event bits, which are the same in inotify and fanotify.
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
    /// All events that a watch requests.
    static let all: Mask = [modified, attributes, written, names]
  }

  var kind = Kind.change
  var number: Number = 0
  var mask: Mask = []
  /// The directory itself, where its attributes changed and the source can open it. Valid only during the callback.
  var directory: ReportedDirectory?
  /// The entry. Valid only during the callback.
  var name: UnsafePointer<CChar>?
  /// Whether this process caused the event. False for what the kernel writes on behalf of a process, such as writeback.
  var isOwn = false
}
