import CFuse
import Glibc
import SystemPackage

/// Tells which entries of watched directories may have changed. (`inotify`)
///
/// The kernel queues an event before the call that caused it returns, so whoever drains the queue first and then looks
/// at what it remembers of a directory never sees an outdated state.
public final class ChangeWatch: Sendable {
  /// One watch. The kernel gives a directory that is watched again the same number, so a serial tells them apart.
  public struct Key: Sendable {
    fileprivate let number: CInt
    fileprivate let serial: UInt64
  }

  /// What a watched directory's owner is told.
  public enum Change {
    /// The entry of that name came, went or was replaced; whether by a rename.
    case entry(UnsafePointer<CChar>, wasMoved: Bool)
    /// The content of the entry of that name was written and closed.
    case content(UnsafePointer<CChar>)
    /// The content of the entry of that name was changed by somebody who still has it open.
    case modification(UnsafePointer<CChar>)
    /// The attributes of the entry of that name changed, its extended ones included.
    case attributes(UnsafePointer<CChar>)
    /// The attributes of the directory itself changed.
    case itself
    /// Events were lost, or the directory itself is gone: nothing remembered of it holds.
    case everything

    /// Whether this is neither about a file that is still being changed, nor about the directory itself alone.
    public var isComplete: Bool {
      switch self {
      case .modification, .itself: false
      default: true
      }
    }
  }

  private typealias Handler = @Sendable (Change) -> Void

  private struct Watches {
    /// Several owners may watch one directory, for which the kernel has one number.
    var handlers: [CInt: [(serial: UInt64, call: Handler, hearsEchoes: Bool)]] = [:]
    var serial: UInt64 = 0
    var echoes: [(serial: UInt64, echo: Echo, state: EchoState)] = []
  }

  /// The event that a change of one's own is about to cause.
  public struct Echo: Sendable {
    public enum Kind: UInt32, Sendable {
      // IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE
      case movedAway = 0x40, movedHere = 0x80, made = 0x100, removed = 0x200
    }
    fileprivate let number: CInt
    fileprivate let kind: Kind
    fileprivate let name: ContiguousArray<CChar>

    public init(_ kind: Kind, _ name: UnsafePointer<CChar>, in directory: Key) {
      number = directory.number
      self.kind = kind
      self.name = ContiguousArray(UnsafeBufferPointer(start: name, count: strlen(name) + 1))
    }

    fileprivate func matches(_ number: CInt, _ mask: UInt32, _ name: UnsafePointer<CChar>) -> Bool {
      number == self.number && mask & kind.rawValue != 0
        && self.name.withUnsafeBufferPointer { strcmp($0.baseAddress!, name) == 0 }
    }
  }

  private enum EchoState {
    /// The change has not returned.
    case underWay
    /// If there is an event, the kernel has queued it.
    case queued
    /// The queue has been read since.
    case due
  }

  private let descriptor: Descriptor
  /// Readable when whoever waits shall stop waiting. (`eventfd`)
  private let waker: Descriptor
  private let watches = Guarded(Watches())
  /// Held while events are delivered, so that whoever drains after another waits until those are.
  private let delivery = RecursionFreeLock()

  /// - Throws: EMFILE, ENFILE or ENOMEM when the kernel has no inotify instance left.
  public init() throws(Errno) {
    descriptor = Descriptor(adopting: try systemCall { inotify_init1(CInt(IN_NONBLOCK | IN_CLOEXEC)) })
    waker = Descriptor(adopting: try systemCall { eventfd(0, CInt(EFD_NONBLOCK | EFD_CLOEXEC)) })
  }

  /// What a user may have: `max_user_watches`, `max_user_instances`; nil where the kernel has no inotify.
  /// (`/proc/sys/fs/inotify`)
  public static func limit(_ name: String) -> Int? {
    Directory(descriptor: AT_FDCWD).wholeFile("/proc/sys/fs/inotify/\(name)").flatMap {
      Int(String(decoding: $0, as: UTF8.self).prefix { $0.isNumber })
    }
  }

  /// Waits until the kernel has queued an event or somebody calls `wake`. (`poll`)
  public func wait() {
    var waiting = [
      pollfd(fd: descriptor.rawValue, events: Int16(POLLIN), revents: 0),
      pollfd(fd: waker.rawValue, events: Int16(POLLIN), revents: 0),
    ]
    poll(&waiting, 2, -1)
    var count: UInt64 = 0
    if waiting[1].revents != 0 { _ = read(waker.rawValue, &count, 8) }
  }

  /// Ends the wait that is under way, or the next one.
  public func wake() {
    var one: UInt64 = 1
    _ = write(waker.rawValue, &one, 8)
  }

  /// Watches a directory until `stop`.
  ///
  /// - Parameter hearsEchoes: whether the handler is told of `unheard` changes too.
  /// - Throws: ENOSPC when the user has no watch left (`fs.inotify.max_user_watches`).
  public func watch(
    _ directory: Directory, hearsEchoes: Bool = true, _ handler: @escaping @Sendable (Change) -> Void
  ) throws(Errno) -> Key {
    let mask = UInt32(
      IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB
        | IN_ONLYDIR)
    // The lock is held over the call: an event for the new key must find its handler.
    let result: Result<Key, Errno> = watches.withLock { watches in
      do throws(Errno) {
        let number = try systemCall {
          inotify_add_watch(descriptor.rawValue, "/proc/self/fd/\(directory.descriptor)", mask)
        }
        watches.serial += 1
        watches.handlers[number, default: []].append((watches.serial, handler, hearsEchoes))
        return .success(Key(number: number, serial: watches.serial))
      } catch {
        return .failure(error)
      }
    }
    return try result.get()
  }

  public func stop(_ key: Key) {
    // What the handler holds on to is let go after the lock is.
    let stopped = watches.withLock { watches -> [Handler] in
      guard let handlers = watches.handlers[key.number] else { return [] }
      let rest = handlers.filter { $0.serial != key.serial }
      if rest.isEmpty {
        watches.handlers[key.number] = nil
        inotify_rm_watch(descriptor.rawValue, key.number)
      } else {
        watches.handlers[key.number] = rest
      }
      return handlers.map(\.call)
    }
    _ = stopped
  }

  /// Runs a change of watched directories, of which only those hear who want to hear echoes: whoever makes it tells all
  /// others what it did.
  ///
  /// A change of the same kind that somebody else makes to the same name just before is taken for it. That loses nothing:
  /// what is told was looked at afterwards, and of a change that failed the others are told what was taken for it.
  public func unheard<R: ~Copyable>(_ echoes: [Echo], _ body: () throws(Errno) -> R) throws(Errno) -> R {
    let serials = watches.withLock { watches in
      for echo in echoes {
        watches.serial += 1
        watches.echoes.append((watches.serial, echo, .underWay))
      }
      return watches.serial - UInt64(echoes.count) + 1...watches.serial
    }
    do throws(Errno) {
      let result = try body()
      watches.withLock { watches in
        for index in watches.echoes.indices where serials.contains(watches.echoes[index].serial) {
          watches.echoes[index].state = .queued
        }
      }
      return result
    } catch {
      let mistaken = watches.withLock { watches in
        let left = Set(watches.echoes.map(\.serial))
        watches.echoes.removeAll { serials.contains($0.serial) }
        return zip(serials, echoes).filter { !left.contains($0.0) }.map { _, echo in
          (echo, (watches.handlers[echo.number] ?? []).filter { !$0.hearsEchoes }.map(\.call))
        }
      }
      for (echo, handlers) in mistaken {
        echo.name.withUnsafeBufferPointer { name in
          for handler in handlers { handler(Self.change(echo.kind.rawValue, name.baseAddress!)) }
        }
      }
      throw error
    }
  }

  /// Delivers all events that the kernel has queued until now. One system call when there are none.
  ///
  /// Handlers may start and stop watches; they must not drain.
  public func drain() {
    delivery.lock()
    defer { delivery.unlock() }
    let awaitsEchoes = watches.withLock { watches in
      for index in watches.echoes.indices where watches.echoes[index].state == .queued {
        watches.echoes[index].state = .due
      }
      return !watches.echoes.isEmpty
    }
    // Those that have not come do not come: nothing changed, or the watch is a new one.
    defer { if awaitsEchoes { watches.withLock { $0.echoes.removeAll { $0.state == .due } } } }
    withUnsafeTemporaryAllocation(byteCount: 16 * 1024, alignment: 8) { buffer in
      while true {
        let count = read(descriptor.rawValue, buffer.baseAddress!, buffer.count)
        if count <= 0 { return }
        deliver(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      }
    }
  }

  private func deliver(_ events: UnsafeRawBufferPointer) {
    var offset = 0
    while offset < events.count {
      // struct inotify_event: s32 wd, u32 mask, u32 cookie, u32 length, name.
      let event = events.baseAddress! + offset
      let number = event.load(as: CInt.self)
      let mask = event.load(fromByteOffset: 4, as: UInt32.self)
      let length = Int(event.load(fromByteOffset: 12, as: UInt32.self))
      offset += 16 + length
      if mask & UInt32(IN_Q_OVERFLOW) != 0 {
        for handler in handlers(of: nil) { handler(.everything) }
      } else if mask & UInt32(IN_IGNORED) != 0 {
        // Either the directory is gone, or a watch was stopped: then nobody is left to tell, or a new watch on the same
        // directory has a number of its own.
        for handler in handlers(of: number, forgetting: true) { handler(.everything) }
      } else if length > 0 {
        let name = (event + 16).assumingMemoryBound(to: CChar.self)
        let change = Self.change(mask, name)
        for handler in handlers(of: number, mask, name) { handler(change) }
      } else if mask & UInt32(IN_ATTRIB) != 0 {
        for handler in handlers(of: number) { handler(.itself) }
      }
    }
  }

  private static func change(_ mask: UInt32, _ name: UnsafePointer<CChar>) -> Change {
    if mask & UInt32(IN_CLOSE_WRITE) != 0 { return .content(name) }
    if mask & UInt32(IN_ATTRIB) != 0 { return .attributes(name) }
    if mask & UInt32(IN_MODIFY) != 0 { return .modification(name) }
    return .entry(name, wasMoved: mask & UInt32(IN_MOVED_FROM | IN_MOVED_TO) != 0)
  }

  /// Those who are to hear of an event.
  private func handlers(of number: CInt, _ mask: UInt32, _ name: UnsafePointer<CChar>) -> [Handler] {
    watches.withLock { watches in
      let handlers = watches.handlers[number] ?? []
      guard let echo = watches.echoes.firstIndex(where: { $0.echo.matches(number, mask, name) }) else {
        return handlers.map(\.call)
      }
      watches.echoes.remove(at: echo)
      return handlers.filter(\.hearsEchoes).map(\.call)
    }
  }

  /// The handlers of one directory, or of all.
  private func handlers(of number: CInt?, forgetting: Bool = false) -> [Handler] {
    watches.withLock { watches in
      guard let number else { return watches.handlers.values.joined().map(\.call) }
      defer { if forgetting { watches.handlers[number] = nil } }
      return watches.handlers[number]?.map(\.call) ?? []
    }
  }
}
