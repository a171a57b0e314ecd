import CLinux
import Glibc
import SystemPackage

/// inotify(7), which needs no privilege. Watches at most as many directories as `fs.inotify.max_user_watches` allows a user.
final class InotifySource: ChangeSource {
  let reportsPID = false
  let isUnlimited = false
  private let descriptor: Descriptor
  var queue: CInt { descriptor.rawValue }

  /// - Throws: EMFILE, ENFILE or ENOMEM when the kernel has no instance left.
  init() throws(Errno) {
    descriptor = Descriptor(adopting: try systemCall { inotify_init1(CInt(IN_NONBLOCK | IN_CLOEXEC)) })
  }

  /// - Throws: ENOSPC when the user has no watch left.
  func add(_ directory: Directory, on _: UInt64?) throws(Errno) -> ChangeEvent.Number {
    try systemCall {
      inotify_add_watch(
        descriptor.rawValue, "/proc/self/fd/\(directory.descriptor)",
        ChangeEvent.Mask.all.rawValue | UInt32(IN_ONLYDIR))
    }
  }

  func remove(_ number: ChangeEvent.Number) { inotify_rm_watch(descriptor.rawValue, number) }

  func suppressModifications(of file: CInt, _ isSuppressed: Bool) throws(Errno) { throw .notSupported }

  func read(into buffer: UnsafeMutableRawBufferPointer, _ body: (ChangeEvent) -> Void) {
    readAll(descriptor.rawValue, into: buffer, headerLength: MemoryLayout<inotify_event>.size) { events in
      var (offset, count) = (0, 0)
      while offset < events.count {
        // struct inotify_event: s32 wd, u32 mask, u32 cookie, u32 length, name.
        let event = events.baseAddress! + offset
        let mask = event.load(fromByteOffset: 4, as: UInt32.self)
        let length = Int(event.load(fromByteOffset: 12, as: UInt32.self))
        offset += 16 + length
        var reported = ChangeEvent(number: event.load(as: CInt.self), mask: .init(rawValue: mask))
        if mask & UInt32(IN_Q_OVERFLOW) != 0 {
          reported.kind = .overflow
        } else if mask & UInt32(IN_IGNORED) != 0 {
          reported.kind = .end
        } else if length > 0 {
          reported.name = UnsafePointer((event + 16).assumingMemoryBound(to: CChar.self))
        }
        body(reported)
        count += 1
      }
      return count
    }
  }
}

extension ChangeSource {
  /// Reads the events that are queued at the time of the call, each time as many whole events as fit into the buffer.
  ///
  /// It does not continue until the queue is empty: on a busy machine clients may cause events faster than this thread reads
  /// them, and the request that it serves would wait for as long as they do. (A delay of 12 s was observed.)
  ///
  /// - Parameters:
  ///   - headerLength: the minimum length of an event in bytes. With fanotify, FIONREAD counts only that much for each event.
  ///   - body: receives whole events and returns their number.
  func readAll(
    _ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer, headerLength: Int,
    _ body: (UnsafeRawBufferPointer) -> Int
  ) {
    var left: Int?
    while true {
      let count = Glibc.read(descriptor, buffer.baseAddress!, buffer.count)
      if count <= 0 { return }
      let events = body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      // No event is larger than 1024 bytes: with that much room left, the queue was empty.
      if buffer.count - count >= 1024 { return }
      let rest = left.map { $0 - events } ?? dfs_queued_bytes(descriptor) / headerLength
      if rest <= 0 { return }
      left = rest
    }
  }
}
