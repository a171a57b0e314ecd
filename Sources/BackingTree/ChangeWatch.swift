import CFuse
import Glibc
import SystemPackage

/// Tells which entries of watched directories may have changed: with fanotify where it can be had, else with inotify.
///
/// The kernel queues an event before the call that caused it returns, so whoever drains the queue first and then looks
/// at what it remembers of a directory never sees an outdated state.
public final class ChangeWatch: Sendable {
  /// One watch. The kernel gives a directory that is watched again the same number, so a serial tells them apart.
  public struct Key: Sendable {
    fileprivate let watched: Watched
    fileprivate let serial: UInt64
  }

  /// What a watched directory's owner is told.
  public enum Change {
    /// The entry of that name came, went or was replaced; whether by a rename.
    case entry(UnsafePointer<CChar>, wasMoved: Bool)
    /// The content of the entry of that name was written and closed; whether by this process.
    case content(UnsafePointer<CChar>, isOwn: Bool)
    /// The content of the entry of that name was changed by somebody who still has it open; whether by this process.
    case modification(UnsafePointer<CChar>, isOwn: Bool)
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

  /// A directory that is watched.
  fileprivate struct Watched: Hashable {
    let isFallback: Bool
    let number: ChangeEvent.Number
  }

  /// Somebody who is told of what happens in a directory.
  private struct Listener {
    let serial: UInt64
    let call: Handler
    let hearsEchoes: Bool
  }

  private struct Watches {
    /// Several owners may watch one directory, for which the kernel has one number.
    var listeners: [Watched: [Listener]] = [:]
    var serial: UInt64 = 0
    var echoes: [(serial: UInt64, echo: Echo, state: EchoState)] = []
  }

  /// The event that a change of one's own is about to cause.
  public struct Echo: Sendable {
    public enum Kind: Sendable { case movedAway, movedHere, made, removed }

    fileprivate let watched: Watched
    fileprivate let kind: ChangeEvent.Mask
    fileprivate let name: ContiguousArray<CChar>

    public init(_ kind: Kind, _ name: UnsafePointer<CChar>, in directory: Key) {
      watched = directory.watched
      self.kind =
        switch kind {
        case .movedAway: .movedAway
        case .movedHere: .movedHere
        case .made: .made
        case .removed: .removed
        }
      self.name = ContiguousArray(UnsafeBufferPointer(start: name, count: strlen(name) + 1))
    }

    fileprivate func isNamed(_ name: UnsafePointer<CChar>, in watched: Watched) -> Bool {
      self.watched == watched && self.name.withUnsafeBufferPointer { strcmp($0.baseAddress!, name) == 0 }
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

  private let source: any ChangeSource
  /// For directories that the other does not take, once there is one.
  private let fallback = Guarded<InotifySource?>(nil)
  /// Readable when whoever waits shall stop waiting. (`eventfd`)
  private let waker: Descriptor
  private let watches = Guarded(Watches())
  /// Held while a watch begins or ends: the kernel has one for all owners of a directory.
  private let marking = RecursionFreeLock()
  /// Events are read and delivered by one thread at a time, also for those that drain meanwhile.
  private let delivery = SharedPass()

  /// - Parameters:
  ///   - root: a directory of the file system that is watched most.
  ///   - tellsWho: whether fanotify may be used.
  /// - Throws: EMFILE, ENFILE or ENOMEM when the kernel has no inotify instance left.
  public init(root: Directory, tellsWho: Bool = true) throws(Errno) {
    waker = Descriptor(adopting: try systemCall { eventfd(0, CInt(EFD_NONBLOCK | EFD_CLOEXEC)) })
    if tellsWho, let source = try? FanotifySource(root: root) {
      self.source = source
    } else {
      source = try InotifySource()
    }
  }

  /// Whether it is known which changes are one's own, and directories can be watched without limit. (fanotify)
  public var tellsWho: Bool { source.tellsWho }

  /// What a user may have: `max_user_watches`, `max_user_instances`; nil where the kernel has no inotify.
  /// (`/proc/sys/fs/inotify`)
  public static func limit(_ name: String) -> Int? {
    Directory(descriptor: AT_FDCWD).wholeFile("/proc/sys/fs/inotify/\(name)").flatMap {
      Int(String(decoding: $0, as: UTF8.self).prefix { $0.isNumber })
    }
  }

  /// Waits until the kernel has queued an event or somebody calls `wake`. (`poll`)
  public func wait() {
    var waiting = [source.queue, fallback.withLock { $0?.queue } ?? -1, waker.rawValue].map {
      pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
    }
    poll(&waiting, 3, -1)
    var count: UInt64 = 0
    if waiting[2].revents != 0 { _ = read(waker.rawValue, &count, 8) }
  }

  /// Ends the wait that is under way, or the next one.
  public func wake() {
    var one: UInt64 = 1
    _ = write(waker.rawValue, &one, 8)
  }

  /// Watches a directory until `stop`: of what changes from when this returns on the handler is told.
  ///
  /// - Parameter hearsEchoes: whether the handler is told of `unheard` changes too.
  /// - Throws: ENOSPC when the user has no watch left (`fs.inotify.max_user_watches`).
  public func watch(
    _ directory: Directory, hearsEchoes: Bool = true, _ handler: @escaping @Sendable (Change) -> Void
  ) throws(Errno) -> Key {
    marking.lock()
    defer { marking.unlock() }
    let watched = try add(directory)
    return watches.withLock { watches in
      watches.serial += 1
      let listener = Listener(serial: watches.serial, call: handler, hearsEchoes: hearsEchoes)
      watches.listeners[watched, default: []].append(listener)
      return Key(watched: watched, serial: watches.serial)
    }
  }

  private func add(_ directory: Directory) throws(Errno) -> Watched {
    do throws(Errno) {
      return Watched(isFallback: false, number: try source.add(directory))
    } catch {
      guard source.tellsWho else { throw error }
      // Another file system is mounted there.
      let (inotify, isNew) = try fallback.withLock { (fallback) throws(Errno) -> (InotifySource, Bool) in
        if let fallback { return (fallback, false) }
        let new = try InotifySource()
        fallback = new
        return (new, true)
      }
      // Whoever waits is to wait for its events too.
      if isNew { wake() }
      return Watched(isFallback: true, number: try inotify.add(directory))
    }
  }

  public func stop(_ key: Key) {
    // What the handlers hold on to is let go after the lock is.
    _ = remove(key)
  }

  private func remove(_ key: Key) -> [Listener] {
    marking.lock()
    defer { marking.unlock() }
    let (stopped, isLast) = watches.withLock { watches -> ([Listener], Bool) in
      guard let listeners = watches.listeners[key.watched] else { return ([], false) }
      let rest = listeners.filter { $0.serial != key.serial }
      watches.listeners[key.watched] = rest.isEmpty ? nil : rest
      return (listeners, rest.isEmpty)
    }
    if isLast {
      let source: (any ChangeSource)? = key.watched.isFallback ? fallback.withLock { $0 } : source
      source?.remove(key.watched.number)
    }
    return stopped
  }

  /// Runs a change of watched directories, of which only those hear who want to hear echoes: whoever makes it tells all
  /// others what it did. Where it is not known who causes an event, everybody hears of it.
  public func unheard<R: ~Copyable>(_ echoes: [Echo], _ body: () throws(Errno) -> R) throws(Errno) -> R {
    guard tellsWho else { return try body() }
    let serials = watches.withLock { watches in
      for echo in echoes {
        watches.serial += 1
        watches.echoes.append((watches.serial, echo, .underWay))
      }
      return watches.serial - UInt64(echoes.count) + 1...watches.serial
    }
    // Even when it fails it may have done something.
    defer {
      watches.withLock { watches in
        for index in watches.echoes.indices where serials.contains(watches.echoes[index].serial) {
          watches.echoes[index].state = .queued
        }
      }
    }
    return try body()
  }

  /// From now on no `modification` of an open file is told, nor queued, which takes as long as a write of four KiB; `content`
  /// is. (fanotify)
  ///
  /// - Returns: whether that can be had.
  public func ignoreModifications(of file: borrowing Descriptor) -> Bool {
    (try? source.ignoreWriting(to: file.rawValue, true)) != nil
  }

  /// Each `modification` of an open file is told again.
  public func hearModifications(of file: borrowing Descriptor) {
    try? source.ignoreWriting(to: file.rawValue, false)
  }

  /// Delivers all events that the kernel has queued until now. One system call when there are none.
  ///
  /// Handlers may start and stop watches; they must not drain.
  public func drain() { delivery.run(deliverAll) }

  private func deliverAll() {
    let awaitsEchoes = watches.withLock { watches in
      for index in watches.echoes.indices where watches.echoes[index].state == .queued {
        watches.echoes[index].state = .due
      }
      return !watches.echoes.isEmpty
    }
    source.read { deliver($0, isFallback: false) }
    if let inotify = fallback.withLock({ $0 }) { inotify.read { deliver($0, isFallback: true) } }
    // Those that have not come do not come: nothing changed, or the watch is a new one.
    if awaitsEchoes { watches.withLock { $0.echoes.removeAll { $0.state == .due } } }
  }

  private func deliver(_ event: ChangeEvent, isFallback: Bool) {
    let watched = Watched(isFallback: isFallback, number: event.number)
    switch event.kind {
    case .overflow: for listener in everyListener { listener.call(.everything) }
    // Either the directory is gone, or a watch was stopped: then nobody is left to tell, or a new watch on the same
    // directory has a number of its own.
    case .end: for listener in listeners(of: watched, forgetting: true) { listener.call(.everything) }
    case .change:
      guard let name = event.name else {
        guard event.mask.contains(.attributes) else { return }
        for listener in listeners(of: watched) { listener.call(.itself) }
        return
      }
      if !event.mask.isDisjoint(with: .names) {
        let change = Change.entry(name, wasMoved: !event.mask.isDisjoint(with: .moved))
        let isEcho = event.isOwn && takeEchoes(of: event.mask.intersection(.names), name, in: watched)
        for listener in listeners(of: watched) where !isEcho || listener.hearsEchoes { listener.call(change) }
      }
      if event.mask.contains(.written) {
        for listener in listeners(of: watched) { listener.call(.content(name, isOwn: event.isOwn)) }
      } else if event.mask.contains(.modified) {
        for listener in listeners(of: watched) { listener.call(.modification(name, isOwn: event.isOwn)) }
      }
      if event.mask.contains(.attributes) {
        for listener in listeners(of: watched) { listener.call(.attributes(name)) }
      }
    }
  }

  /// Whether that is what was awaited of a name, and all of it: events of one name may come as one.
  private func takeEchoes(
    of kinds: ChangeEvent.Mask, _ name: UnsafePointer<CChar>, in watched: Watched
  ) -> Bool {
    watches.withLock { watches in
      var unknown = kinds
      watches.echoes.removeAll { _, echo, _ in
        guard unknown.contains(echo.kind), echo.isNamed(name, in: watched) else { return false }
        unknown.subtract(echo.kind)
        return true
      }
      return unknown.isEmpty
    }
  }

  private func listeners(of watched: Watched, forgetting: Bool = false) -> [Listener] {
    watches.withLock { watches in
      defer { if forgetting { watches.listeners[watched] = nil } }
      return watches.listeners[watched] ?? []
    }
  }

  private var everyListener: [Listener] { watches.withLock { Array($0.listeners.values.joined()) } }
}
