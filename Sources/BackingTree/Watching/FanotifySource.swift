import CLinux
import Glibc
import SystemPackage

/// fanotify(7). Reports whether this process caused an event. An event names the directory by its file handle.
///
/// Removing a mark takes a descriptor of the directory. Root opens one by the file handle. An ordinary user (Linux 5.13) may not,
/// so a descriptor is kept for each watch. Hence the number of watches is limited, and only directories on the root's mount are
/// watched: a descriptor keeps its mount busy.
final class FanotifySource: ChangeSource {
  private struct Watch {
    let handle: FileHandle
    /// Nil where it can be opened by the handle.
    let directory: KeptDirectory?
  }

  private final class KeptDirectory: Sendable {
    let descriptor: Descriptor
    init(_ descriptor: consuming Descriptor) { self.descriptor = descriptor }
  }

  private struct Watches {
    var numbers: [FileHandle: ChangeEvent.Number] = [:]
    var watches: [NumberKey: Watch] = [:]
    var last: ChangeEvent.Number = 0
  }

  let reportsPID = true
  let isUnlimited: Bool
  private let group: Descriptor
  /// A directory of the file system, needed to open directories by handle.
  private let root: Descriptor
  private let device: UInt64
  /// The mount of the root.
  private let mount: CInt
  private let process = getpid()
  private let watches = Guarded(Watches())
  var queue: CInt { group.rawValue }

  /// The maximum number of watches that keep a descriptor. At most half of the marks that the user may have: the rest is for other
  /// programs.
  private static let most = min(
    DescriptorLimit.forWatches, (ChangeWatch.limit("fanotify/max_user_marks") ?? 0) / 2)

  /// - Parameters:
  ///   - root: a directory of the file system.
  ///   - isUnlimited: whether directories are opened by their handles, and their number is not limited.
  /// - Throws: EPERM without CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH where `isUnlimited`, and otherwise before Linux 5.13; EINVAL
  ///   before Linux 5.9; EOPNOTSUPP, ENODEV, EXDEV or EOVERFLOW where the file system has no file handles, or has handles longer
  ///   than 24 bytes; EMFILE when the user has no group or the daemon no descriptor left; ENOSPC when the user has no mark left.
  init(root: Directory, isUnlimited: Bool) throws(Errno) {
    self.isUnlimited = isUnlimited
    group = Descriptor(adopting: try systemCall { dfs_fanotify_new(isUnlimited) })
    self.root = try root.open(".", O_RDONLY | O_DIRECTORY)
    device = UInt64(try root.status().st_dev)
    let (handle, mount) = try FileHandle.find(root)
    self.mount = mount
    // Probe once everything that is needed later.
    let probe = Watch(handle: handle, directory: isUnlimited ? nil : try keep(root, on: mount, 0))
    try mark(root, isAdded: true)
    try removeMark(of: probe)
  }

  private func mark(_ directory: Directory, isAdded: Bool) throws(Errno) {
    _ = try systemCall {
      dfs_fanotify_mark(
        group.rawValue, directory.descriptor, UInt64(ChangeEvent.Mask.all.rawValue), isAdded ? 1 : 0)
    }
  }

  private func open(_ handle: FileHandle) throws(Errno) -> Descriptor {
    var raw = handle.raw
    return Descriptor(
      adopting: try systemCall { dfs_open_handle(root.rawValue, &raw, dfs_O_PATH | dfs_O_DIRECTORY) })
  }

  /// - Throws: EXDEV for a directory of another file system or, where descriptors are kept, of another mount; EMFILE when there are
  ///   `most` watches or no descriptor is left; ENOSPC when the user has no mark left.
  func add(_ directory: Directory, on device: UInt64?) throws(Errno) -> ChangeEvent.Number {
    let actual = if let device { device } else { UInt64(try directory.status().st_dev) }
    guard actual == self.device else { throw .improperLink }
    let (handle, mount) = try FileHandle.find(directory)
    let (known, count) = watches.withLock { ($0.numbers[handle], $0.watches.count) }
    // A directory with a number is marked already; marking it again would cost some microseconds.
    if let known { return known }
    let kept = isUnlimited ? nil : try keep(directory, on: mount, count)
    // Assign the number before the mark: an event may arrive at once and must find it.
    let number = watches.withLock { watches -> ChangeEvent.Number in
      watches.last += 1
      watches.numbers[handle] = watches.last
      watches.watches[NumberKey(watches.last)] = Watch(handle: handle, directory: kept)
      return watches.last
    }
    do throws(Errno) { try mark(directory, isAdded: true) } catch {
      removeWatch(number)
      throw error
    }
    return number
  }

  /// Duplicates the descriptor of a directory. (`fcntl`, F_DUPFD_CLOEXEC)
  private func keep(_ directory: Directory, on mount: CInt, _ count: Int) throws(Errno) -> KeptDirectory {
    guard mount == self.mount else { throw .improperLink }
    guard count < Self.most else { throw .tooManyOpenFiles }
    let kept = Descriptor(adopting: try systemCall { fcntl(directory.descriptor, F_DUPFD_CLOEXEC, 0) })
    if DescriptorLimit.isReserved(kept.rawValue) { throw .tooManyOpenFiles }
    return KeptDirectory(kept)
  }

  func remove(_ number: ChangeEvent.Number) {
    guard let watch = removeWatch(number) else { return }
    // If this fails, as where the user may not read the directory any more, its events still arrive and are ignored.
    try? removeMark(of: watch)
  }

  private func removeMark(of watch: Watch) throws(Errno) {
    if let kept = watch.directory {
      return try mark(Directory(descriptor: kept.descriptor.rawValue), isAdded: false)
    }
    let opened = try open(watch.handle)
    try mark(Directory(descriptor: opened.rawValue), isAdded: false)
  }

  @discardableResult
  private func removeWatch(_ number: ChangeEvent.Number) -> Watch? {
    watches.withLock { watches in
      guard let watch = watches.watches.removeValue(forKey: NumberKey(number)) else { return nil }
      watches.numbers[watch.handle] = nil
      return watch
    }
  }

  /// Calls `body` with a directory; with nil where there is neither a descriptor of it nor the right to open it by its handle.
  ///
  /// The kernel reports a change of a directory's attributes under the directory itself, not as one of an entry of its parent.
  /// (`fanotify_dfid_inode`)
  private func withDirectory(
    _ handle: FileHandle, _ number: ChangeEvent.Number?, _ body: (ReportedDirectory?) -> Void
  ) {
    let kept = number.flatMap { number in watches.withLock { $0.watches[NumberKey(number)]?.directory } }
    if let kept { return body(try? ReportedDirectory(kept.descriptor)) }
    guard isUnlimited, let opened = try? open(handle) else { return body(nil) }
    body(try? ReportedDirectory(opened))
  }

  func suppressModifications(of file: CInt, _ isSuppressed: Bool) throws(Errno) {
    _ = try systemCall { dfs_fanotify_ignore_writing(group.rawValue, file, isSuppressed ? 1 : 0) }
  }

  func read(into buffer: UnsafeMutableRawBufferPointer, _ body: (ChangeEvent) -> Void) {
    let headerLength = MemoryLayout<fanotify_event_metadata>.size
    readAll(group.rawValue, into: buffer, headerLength: headerLength) { events in
      // Events are aligned to four bytes only.
      var (offset, count) = (0, 0)
      while offset < events.count {
        // struct fanotify_event_metadata: u32 length, u8 version, u8 reserved, u16 length of this, u64 mask, s32 fd, s32 pid.
        let event = UnsafeRawBufferPointer(rebasing: events[offset...])
        let length = Int(event.loadUnaligned(as: UInt32.self))
        offset += length
        count += 1
        let mask = event.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        var reported = ChangeEvent(
          mask: ChangeEvent.Mask(rawValue: UInt32(truncatingIfNeeded: mask)).intersection(.all),
          isOwn: event.loadUnaligned(fromByteOffset: 20, as: Int32.self) == process)
        if mask & UInt64(FAN_Q_OVERFLOW) != 0 {
          reported.kind = .overflow
          body(reported)
          continue
        }
        // struct fanotify_event_info_fid: u8 type, u8 pad, u16 length, 8 bytes of file system; struct file_handle; name.
        let start = Int(event.loadUnaligned(fromByteOffset: 6, as: UInt16.self))
        guard length > start + 20, event[start] == UInt8(FAN_EVENT_INFO_TYPE_DFID_NAME),
          let handle = FileHandle(UnsafeRawBufferPointer(rebasing: event[(start + 12)..<length]))
        else { continue }
        let name = (event.baseAddress! + start + 20 + handle.length).assumingMemoryBound(to: CChar.self)
        let isOfDirectory = strcmp(name, ".") == 0
        let number = watches.withLock { $0.numbers[handle] }
        if let number {
          reported.number = number
          if mask & UInt64(FAN_DELETE_SELF) != 0 {
            reported.kind = .end
            removeWatch(number)
          } else if !isOfDirectory {
            reported.name = name
          }
        } else {
          reported.kind = .unwatched
        }
        if isOfDirectory, reported.kind != .end, reported.mask.contains(.attributes), !reported.isOwn {
          withDirectory(handle, number) {
            reported.directory = $0
            body(reported)
          }
        } else if number != nil {
          body(reported)
        }
      }
      return count
    }
  }
}

/// The kernel's handle of a file, valid as long as the file exists. (`name_to_handle_at`)
private struct FileHandle: Hashable {
  private static let limit = 24
  let length: Int
  private let type: Int32
  private let bytes: (UInt64, UInt64, UInt64)

  var raw: dfs_handle { dfs_handle(length: UInt32(length), type: type, bytes: bytes, mount: 0) }

  /// The handle of a directory, and the number of its mount.
  ///
  /// - Throws: EOPNOTSUPP where the file system has no handles, EOVERFLOW where they are longer than 24 bytes.
  static func find(_ directory: Directory) throws(Errno) -> (FileHandle, mount: CInt) {
    var raw = dfs_handle()
    _ = try systemCall { dfs_handle_of(directory.descriptor, "", &raw) }
    return (FileHandle(length: Int(raw.length), type: raw.type, bytes: raw.bytes), raw.mount)
  }

  /// Decodes a `struct file_handle`: u32 length, s32 type, the bytes. Nil when it is longer than 24 bytes.
  init?(_ raw: UnsafeRawBufferPointer) {
    let length = Int(raw.loadUnaligned(as: UInt32.self))
    guard length <= Self.limit, length <= raw.count - 8 else { return nil }
    var bytes: (UInt64, UInt64, UInt64) = (0, 0, 0)
    withUnsafeMutableBytes(of: &bytes) {
      $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: raw[8..<8 + length]))
    }
    self.init(length: length, type: raw.loadUnaligned(fromByteOffset: 4, as: Int32.self), bytes: bytes)
  }

  private init(length: Int, type: Int32, bytes: (UInt64, UInt64, UInt64)) {
    self.length = length
    self.type = type
    self.bytes = bytes
  }

  static func == (a: FileHandle, b: FileHandle) -> Bool {
    a.length == b.length && a.type == b.type && a.bytes == b.bytes
  }

  func hash(into hasher: inout Hasher) {
    hasher.combine(bytes.0)
    hasher.combine(bytes.1)
    hasher.combine(bytes.2)
  }

  /// Each event is looked up by this, and SipHash would take as long as all else about it.
  func _rawHashValue(seed: Int) -> Int {
    KeyedHash.hash(
      UInt64(bitPattern: Int64(KeyedHash.hash(bytes.0, bytes.1))), bytes.2 ^ UInt64(bitPattern: Int64(seed)))
  }
}
