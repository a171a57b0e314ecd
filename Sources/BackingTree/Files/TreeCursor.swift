import CLinux
import Glibc
import SystemPackage

/// The position of a walk in a directory tree: a directory at or below the top, open for reading.
///
/// A step down opens one name and a step up opens `..`, so the cost of a walk is proportional to the number of directories at any
/// depth. The directory and its parent are always open, and never more than `maximumOpen` descriptors. (`openat2`, `openat`)
///
/// No step follows a symlink or enters a mount point: the mount that the walk is done for may be mounted there. `..` must lead to
/// the directory that the walk came from, so a directory renamed meanwhile cannot divert the walk.
public struct TreeCursor: ~Copyable {
  private struct Level {
    let identity: FileIdentity
    /// The length of `path` at this level.
    let pathEnd: Int
    /// -1 while the directory is closed.
    var descriptor: CInt
  }

  private static let maximumOpen = 4
  private static let readDirectory = O_RDONLY | dfs_O_DIRECTORY

  private var levels: [Level]
  /// The path relative to the top, components separated by single slashes; empty at the top.
  public private(set) var path: [UInt8] = []

  public init(_ top: Directory) throws(Errno) {
    let opened = try top.openForReading()
    let identity = FileIdentity(try fileStatus(opened.rawValue))
    levels = [Level(identity: identity, pathEnd: 0, descriptor: opened.release())]
  }

  deinit { for level in levels where level.descriptor >= 0 { close(level.descriptor) } }

  /// The number of levels below the top.
  public var depth: Int { levels.count - 1 }
  public var identity: FileIdentity { levels[levels.count - 1].identity }
  public var directory: Directory { Directory(descriptor: levels[levels.count - 1].descriptor) }

  /// Steps down to an entry of the directory.
  ///
  /// - Throws: ENOTDIR or ELOOP when it is not a directory; EXDEV when it is a mount point.
  public mutating func enter(_ name: UnsafePointer<CChar>) throws(Errno) {
    let opened = try directory.openBeneath(name, Self.readDirectory)
    let identity = FileIdentity(try fileStatus(opened.rawValue))
    let bytes = UnsafeBufferPointer(
      start: UnsafeRawPointer(name).assumingMemoryBound(to: UInt8.self), count: strlen(name))
    if depth > 0 { path.append(0x2f) }
    path.append(contentsOf: bytes)
    levels.append(Level(identity: identity, pathEnd: path.count, descriptor: opened.release()))
    if levels.count > Self.maximumOpen { closeLevel(levels.count - 1 - Self.maximumOpen) }
  }

  /// Steps up to the directory's parent.
  ///
  /// - Throws: EIO when a directory above has been moved; then the cursor must not be used any more.
  public mutating func leave() throws(Errno) {
    precondition(depth > 0)
    closeLevel(levels.count - 1)
    levels.removeLast()
    path.removeLast(path.count - levels[levels.count - 1].pathEnd)
    // Reopen the parent now and not on demand: while unpacking, the walk removes search permission from the directory before it
    // leaves it.
    if depth > 0, levels[levels.count - 2].descriptor < 0 { try reopenParent() }
  }

  /// Steps up until the directory is `depth` levels below the top.
  public mutating func leave(to depth: Int) throws(Errno) {
    while self.depth > depth { try leave() }
  }

  /// Steps up and down to a path below the top.
  ///
  /// - Throws: like `enter` and `leave`; EINTR when the client that the walk is done for is being killed.
  public mutating func move(to target: [UInt8]) throws(Errno) {
    try Interruption.check()
    while !isAt(orBelow: target) { try leave() }
    var rest = target[path.count...]
    while !rest.isEmpty {
      if rest.first == 0x2f { rest.removeFirst() }
      let name = rest.prefix { $0 != 0x2f }
      rest = rest[name.endIndex...]
      try name.withCName { (name) throws(Errno) in try enter(name) }
    }
  }

  /// Whether `target` is the path of this directory or of something below it.
  private func isAt(orBelow target: [UInt8]) -> Bool {
    depth == 0 || target.starts(with: path) && (target.count == path.count || target[path.count] == 0x2f)
  }

  private mutating func reopenParent() throws(Errno) {
    let parent = try directory.open("..", Self.readDirectory)
    guard FileIdentity(try fileStatus(parent.rawValue)) == levels[levels.count - 2].identity else {
      throw .ioError
    }
    levels[levels.count - 2].descriptor = parent.release()
  }

  private mutating func closeLevel(_ index: Int) {
    if levels[index].descriptor >= 0 { close(levels[index].descriptor) }
    levels[index].descriptor = -1
  }
}
