import Glibc
import SystemPackage

/// The mounts of this process's mount namespace, from `/proc/self/mountinfo`.
public struct MountTable {
  public struct Line: Sendable {
    /// The kernel's mount id, as in /proc/PID/fdinfo.
    public let id: Int
    /// The id of the mount that this one is mounted on.
    let parent: Int
    public let mountPoint: FilePath
    public let type: String
    /// The mount's source: a path, unless the mount option `fsname=` set another text.
    public let source: FilePath
    /// The options of the mount and of the file system, as mount(8) prints them.
    public let options: [String]
    /// The user that mounted a FUSE file system; nil for other file systems.
    public var user: uid_t? {
      options.lazy.compactMap { $0.utf8.starts(with: "user_id=".utf8) ? uid_t($0.dropFirst(8)) : nil }.first
    }
    /// The minor device number, which is the connection's name in /sys/fs/fuse/connections.
    public let device: String

    /// Whether the device number of a file (`st_dev`) is that of this mount's file system, if that has no device, as FUSE.
    public func isFileSystem(of device: UInt64) -> Bool {
      let (major, minor) = MountTable.numbers(of: device)
      return major == 0 && self.device == "\(minor)"
    }

    /// Whether the mount is one of displayfs.
    public var isView: Bool { type == "fuse.displayfs" }
    /// Whether something is mounted in it at present.
    public var hasMounts: Bool { MountTable.current.contains { $0.parent == id } }
  }

  /// The mounts of displayfs.
  public static var displayfs: [Line] { current.filter(\.isView) }

  /// The topmost mount at a path; nil when nothing is mounted there.
  ///
  /// The mount itself is not accessed, as its daemon may be dead: only the path without the last component is resolved.
  public static func topmost(at path: FilePath) -> Line? {
    let mounts = current
    if let leaf = path.lastComponent, leaf.kind == .regular {
      let parent = path.removingLastComponent()
      let literal = try? (parent.isEmpty ? "." : parent).resolvingSymlinks().appending(leaf)
      if let literal, let mount = topmost(mounts.filter { $0.mountPoint == literal }) { return mount }
    }
    let resolved = (try? path.resolvingSymlinks()) ?? path
    return topmost(mounts.filter { $0.mountPoint == resolved })
  }

  /// The mount that no other is mounted on, of those in one place. They are listed by their ids: a mount that was moved on top
  /// may come first.
  static func topmost(_ mounts: [Line]) -> Line? {
    mounts.last { mount in !mounts.contains { $0.parent == mount.id } }
  }

  /// Whether a file system of a type is mounted.
  public static func isMounted(_ type: String) -> Bool { current.contains { $0.type == type } }

  /// One mount at one place.
  struct Place: Hashable {
    let mountPoint: FilePath
    let id: Int
    let device: String
  }

  /// Where something is mounted. An id may be that of a mount that is gone.
  static var places: Set<Place> {
    Set(current.map { Place(mountPoint: $0.mountPoint, id: $0.id, device: $0.device) })
  }

  /// Whether the file system with this device number (`st_dev`) is served by a user-space process or another machine. If that
  /// server hangs, calls into the file system do not return.
  public static func isRemote(_ device: UInt64) -> Bool {
    let (major, minor) = numbers(of: device)
    let number = Array("\(major):\(minor)".utf8)
    return (text ?? []).split(separator: UInt8(ascii: "\n")).contains { line in
      let fields = line.split(separator: UInt8(ascii: " "))
      guard fields.count > 6, fields[2].elementsEqual(number),
        let dash = fields.firstIndex(of: [UInt8(ascii: "-")]),
        dash + 1 < fields.count
      else { return false }
      let type = string(fields[dash + 1])
      return type.hasPrefix("fuse") || remoteTypes.contains(type)
    }
  }

  /// The bit layout of makedev(3).
  private static func numbers(of device: UInt64) -> (major: UInt64, minor: UInt64) {
    (device >> 8 & 0xfff | device >> 32 & ~0xfff, device & 0xff | device >> 12 & ~0xff & 0xffff_ffff)
  }

  private static let remoteTypes: Set<String> = [
    "nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "coda", "lustre", "ncpfs", "virtiofs", "vboxsf",
    "vmhgfs",
  ]

  private static var text: [UInt8]? { Directory(descriptor: AT_FDCWD).wholeFile("/proc/self/mountinfo") }

  static var current: [Line] { text.map(lines) ?? [] }

  /// - Parameter bytes: the text of a mountinfo file.
  static func lines(_ bytes: [UInt8]) -> [Line] {
    bytes.split(separator: UInt8(ascii: "\n")).compactMap { line in
      let fields = line.split(separator: UInt8(ascii: " "))
      guard let dash = fields.firstIndex(of: [UInt8(ascii: "-")]), dash > 5, fields.count > dash + 3,
        let id = Int(string(fields[0])), let parent = Int(string(fields[1]))
      else { return nil }
      return Line(
        id: id, parent: parent, mountPoint: FilePath(bytes: unescape(fields[4])),
        type: string(fields[dash + 1]),
        source: FilePath(bytes: unescape(fields[dash + 2])), options: merged(fields[5], fields[dash + 3]),
        device: string(fields[2].drop { $0 != UInt8(ascii: ":") }.dropFirst()))
    }
  }

  private static func string(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }

  private static func merged(_ lists: ArraySlice<UInt8>...) -> [String] {
    var seen: Set<String> = []
    return lists.flatMap { $0.split(separator: UInt8(ascii: ",")).map(string) }.filter {
      seen.insert($0).inserted
    }
  }

  /// Decodes the octal escapes of mountinfo: a blank is written as `\040`.
  private static func unescape(_ field: ArraySlice<UInt8>) -> [UInt8] {
    var bytes: [UInt8] = []
    var rest = field
    while let byte = rest.popFirst() {
      let digits = rest.prefix(3).prefix { UInt8(ascii: "0")...UInt8(ascii: "7") ~= $0 }
      if byte == UInt8(ascii: "\\"), digits.count == 3 {
        bytes.append(digits.reduce(0) { $0 << 3 | $1 & 7 })
        rest = rest.dropFirst(3)
      } else {
        bytes.append(byte)
      }
    }
    return bytes
  }
}
