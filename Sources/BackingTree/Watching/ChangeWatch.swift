import CLinux
import Glibc
import SystemPackage

/// Reports which entries of watched directories may have changed. Uses fanotify where it is available and inotify otherwise.
///
/// The kernel queues an event before the call that caused it returns. A thread that drains the queue before it reads its cached
/// state of a directory therefore never sees a state from before that call.
public final class ChangeWatch: Sendable {
  /// One watch of a directory. It ends with the last reference to this object.
  public final class Subscription: Sendable {
    fileprivate let watch: ChangeWatch
    let watched: Watched
    /// The kernel reuses the number of a directory that is watched again; the serial distinguishes the watches.
    let serial: UInt64

    fileprivate init(_ watch: ChangeWatch, _ watched: Watched, serial: UInt64) {
      self.watch = watch
      self.watched = watched
      self.serial = serial
    }

    deinit { watch.end(watched, serial) }
  }

  /// A change that is reported to the handler of a watch.
  public enum Change {
    /// The entry of that name was created, removed or replaced. `wasMoved` says whether by a rename.
    case entry(UnsafePointer<CChar>, wasMoved: Bool)
    /// The entry of that name was written and closed. `isOwn` says whether by this process.
    case content(UnsafePointer<CChar>, isOwn: Bool)
    /// The content of the entry of that name changed while the writer has it open. `isOwn` says whether the writer is this
    /// process.
    case modification(UnsafePointer<CChar>, isOwn: Bool)
    /// The attributes of the entry of that name changed, including extended attributes.
    case attributes(UnsafePointer<CChar>)
    /// The attributes of the directory itself changed.
    case directoryAttributes
    /// Events were lost, or the directory itself is gone: discard all cached state of it. A watch that keeps a descriptor of the
    /// directory does not report that the directory is gone; the events of its entries and of its parent have to suffice.
    case everything

    /// Whether entries may have appeared, disappeared or been renamed.
    public var isOfEntries: Bool {
      switch self {
      case .entry, .everything: true
      case .content, .modification, .attributes, .directoryAttributes: false
      }
    }
  }

  private typealias Handler = @Sendable (Change) -> Void

  /// The number of a watched directory in one of the two sources.
  struct Watched: Hashable {
    let isFallback: Bool
    let number: ChangeEvent.Number

    /// For the table of listeners, where each event looks its own up; it would otherwise take SipHash.
    func _rawHashValue(seed: Int) -> Int {
      KeyedHash.hash(
        UInt64(UInt32(bitPattern: number)), (isFallback ? 1 : 0) ^ UInt64(bitPattern: Int64(seed)))
    }
  }

  /// The handler of one watch.
  private struct Listener {
    let serial: UInt64
    let call: Handler
    let receivesSelfEvents: Bool
  }

  private struct Watches {
    /// Several owners may watch one directory, for which the kernel has a single watch.
    var listeners: [Watched: [Listener]] = [:]
    var serial: UInt64 = 0
    var selfEvents = SelfEvents()
  }

  private let source: any ChangeSource
  /// The source for directories that `source` refuses. Created when the first one is refused.
  private let fallback = Guarded<InotifySource?>(nil)
  /// Readable when `wait` is to return. (`eventfd`)
  private let waker: Descriptor
  private let watches = Guarded(Watches())
  private let onDirectoryAttributes = Guarded<(@Sendable (ReportedDirectory) -> Void)?>(nil)
  /// Held while a watch begins or ends: the kernel has one watch for all owners of a directory.
  private let marking = RecursionFreeLock(.marking)
  /// Only one thread at a time reads and delivers events. Threads that call `drain` meanwhile share its next pass.
  private let delivery = SharedPass()
  /// Room for the events that a pass of `delivery` reads.
  private nonisolated(unsafe) let buffer = UnsafeMutableRawBufferPointer.allocate(
    byteCount: 16 * 1024, alignment: 8)

  /// The kernel's interfaces, the best first.
  enum Interface: CaseIterable {
    /// As root has it.
    case unlimitedFanotify
    /// As ordinary users have it since Linux 5.13. Used on local file systems only: on others a watch does not report every change,
    /// and is not worth the descriptor that it keeps.
    case fanotify
    case inotify
  }

  /// - Parameter root: a directory of the file system that has most of the watched directories.
  /// - Throws: EMFILE, ENFILE or ENOMEM when the kernel has no inotify instance left.
  public convenience init(root: Directory) throws(Errno) { try self.init(root: root, Interface.allCases) }

  /// - Parameter interfaces: those of fanotify are tried in order, and inotify is used where none can be had.
  init(root: Directory, _ interfaces: [Interface]) throws(Errno) {
    waker = Descriptor(adopting: try systemCall { eventfd(0, CInt(EFD_NONBLOCK | EFD_CLOEXEC)) })
    if let fanotify = Self.fanotify(interfaces, root) {
      source = fanotify
    } else {
      source = try InotifySource()
    }
  }

  private static func fanotify(_ interfaces: [Interface], _ root: Directory) -> FanotifySource? {
    for interface in interfaces where interface != .inotify {
      let isUnlimited = interface == .unlimitedFanotify
      guard isUnlimited || FileSystemKind(of: root.descriptor).isLocal else { continue }
      if let fanotify = try? FanotifySource(root: root, isUnlimited: isUnlimited) { return fanotify }
    }
    return nil
  }

  deinit { buffer.deallocate() }

  /// Whether events say if this process caused them. Those of directories that `source` refused do not.
  var reportsPID: Bool { source.reportsPID }

  /// The names of the interfaces that are in use.
  public var interfacesInUse: [String] {
    if !source.reportsPID { return ["inotify"] }
    return fallback.withLock { $0 == nil } ? ["fanotify"] : ["fanotify", "inotify"]
  }

  /// Whether the kernel sets no limit to the number of watches. (fanotify as root)
  public var isUnlimited: Bool { source.isUnlimited }

  /// A limit of each user, such as `inotify/max_user_watches`; nil where the kernel does not have that interface. (`/proc/sys/fs`)
  public static func limit(_ name: String) -> Int? {
    Directory(descriptor: AT_FDCWD).wholeFile("/proc/sys/fs/\(name)").flatMap {
      Int(String(decoding: $0, as: UTF8.self).prefix { $0.isNumber })
    }
  }

  /// Waits until an event is queued or `wake` is called. (`poll`)
  public func wait() {
    var waiting = [source.queue, fallback.withLock { $0?.queue } ?? -1, waker.rawValue].map {
      pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
    }
    poll(&waiting, 3, -1)
    var count: UInt64 = 0
    if waiting[2].revents != 0 { _ = read(waker.rawValue, &count, 8) }
  }

  /// Ends the current call of `wait`, or the next one if no thread waits.
  public func wake() {
    var one: UInt64 = 1
    _ = write(waker.rawValue, &one, 8)
  }

  /// Watches a directory until the subscription is released. The handler receives all changes from the return of this function
  /// on, and must not keep the subscription.
  ///
  /// - Parameters:
  ///   - device: the device number of the directory's file system, if the caller knows it.
  ///   - receivesSelfEvents: whether the handler also receives the changes made in `suppressingSelfEvents`.
  /// - Throws: ENOSPC when the user has no watch left (`fs.inotify.max_user_watches`), or no inotify instance for a directory that
  ///   fanotify does not take.
  public func watch(
    _ directory: Directory, on device: UInt64? = nil, receivesSelfEvents: Bool = true,
    _ handler: @escaping @Sendable (Change) -> Void
  ) throws(Errno) -> Subscription {
    marking.lock()
    defer { marking.unlock() }
    let watched = try add(directory, on: device)
    return watches.withLock { watches in
      watches.serial += 1
      let listener = Listener(serial: watches.serial, call: handler, receivesSelfEvents: receivesSelfEvents)
      watches.listeners[watched, default: []].append(listener)
      return Subscription(self, watched, serial: watches.serial)
    }
  }

  /// Calls a handler, as one of `watch`, for each directory of which another process changes the attributes, watched or not, if
  /// it lies in a watched one. inotify reports such a change as one of an entry instead; and an ordinary user's fanotify reports
  /// it only of a directory that is watched.
  public func onDirectoryAttributes(_ handler: @escaping @Sendable (ReportedDirectory) -> Void) {
    onDirectoryAttributes.withLock { $0 = handler }
  }

  private func add(_ directory: Directory, on device: UInt64?) throws(Errno) -> Watched {
    do throws(Errno) {
      return Watched(isFallback: false, number: try source.add(directory, on: device))
    } catch {
      guard source.reportsPID else { throw error }
      // fanotify takes directories of one file system only, and from an ordinary user a limited number.
      let (inotify, isNew) = try fallback.withLock { (fallback) throws(Errno) -> (InotifySource, Bool) in
        if let fallback { return (fallback, false) }
        // Directories that are watched already have to make room, as where there is no watch left.
        guard let new = try? InotifySource() else { throw .noSpace }
        fallback = new
        return (new, true)
      }
      // Restart `wait`, so that it polls the new source too.
      if isNew { wake() }
      return Watched(isFallback: true, number: try inotify.add(directory, on: device))
    }
  }

  private func end(_ watched: Watched, _ serial: UInt64) {
    // Destroy the handlers' captured objects after the lock is released.
    _ = remove(watched, serial)
  }

  private func remove(_ watched: Watched, _ serial: UInt64) -> [Listener] {
    marking.lock()
    defer { marking.unlock() }
    let (stopped, isLast) = watches.withLock { watches -> ([Listener], Bool) in
      guard let listeners = watches.listeners[watched] else { return ([], false) }
      let rest = listeners.filter { $0.serial != serial }
      watches.listeners[watched] = rest.isEmpty ? nil : rest
      return (listeners, rest.isEmpty)
    }
    if isLast {
      let source: (any ChangeSource)? = watched.isFallback ? fallback.withLock { $0 } : source
      source?.remove(watched.number)
    }
    return stopped
  }

  /// Runs a change of watched directories. The watches that the self events name receive the events only with
  /// `receivesSelfEvents`: the thread that makes the change updates their state itself.
  ///
  /// inotify does not report the cause of an event. There, as many events of a name and kind are taken for self events as there
  /// were changes. If the call fails, another process has caused the event that was taken, so the watches receive it then.
  public func suppressingSelfEvents<R: ~Copyable>(
    _ first: SelfEvent?, _ second: SelfEvent? = nil, _ body: () throws(Errno) -> R
  ) throws(Errno) -> R {
    guard first != nil || second != nil else { return try body() }
    let expected = watches.withLock { $0.selfEvents.expect(first, second) }
    do throws(Errno) {
      let result = try body()
      watches.withLock { $0.selfEvents.noteQueued(expected) }
      return result
    } catch {
      noteFailure([first, second].compactMap { $0 }, expected)
      throw error
    }
  }

  private func noteFailure(_ events: [SelfEvent], _ expected: SelfEvents.Serials) {
    if events.allSatisfy({ reportsCause(of: $0.watched) }) {
      // The call may have made a part of the change.
      return watches.withLock { $0.selfEvents.noteQueued(expected) }
    }
    let taken = watches.withLock { $0.selfEvents.cancel(expected) }
    for (serial, event) in zip(expected, events) where taken.contains(serial) {
      event.name.withUnsafeBufferPointer { name in
        for listener in listeners(of: event.watched) where listener.serial == event.serial {
          listener.call(.entry(name.baseAddress!, wasMoved: event.isMove))
        }
      }
    }
  }

  private func reportsCause(of watched: Watched) -> Bool { reportsPID && !watched.isFallback }

  /// From now on, `modification` of an open file is neither reported nor queued; queueing an event takes as long as a write of 4
  /// KiB. `content` is still reported. (fanotify)
  ///
  /// - Returns: false where the source cannot do that.
  public func suppressModifications(of file: borrowing Descriptor) -> Bool {
    (try? source.suppressModifications(of: file.rawValue, true)) != nil
  }

  /// Reports each `modification` of an open file again.
  ///
  /// - Returns: false where the kernel does not: an ordinary user must still have the right to read the file.
  public func restoreModifications(of file: borrowing Descriptor) -> Bool {
    (try? source.suppressModifications(of: file.rawValue, false)) != nil
  }

  /// Delivers all events that are queued at the time of the call. One system call when there are none.
  ///
  /// Handlers may start and stop watches. They must not call `drain`.
  public func drain() { delivery.run(deliverAll) }

  private func deliverAll() {
    let expectsSelfEvents = watches.withLock { $0.selfEvents.beginReading() }
    source.read(into: buffer) { deliver($0, isFallback: false) }
    if let inotify = fallback.withLock({ $0 }) {
      inotify.read(into: buffer) { deliver($0, isFallback: true) }
    }
    if expectsSelfEvents { watches.withLock { $0.selfEvents.endReading() } }
  }

  private func deliver(_ event: ChangeEvent, isFallback: Bool) {
    if let directory = event.directory { onDirectoryAttributes.withLock { $0 }?(directory) }
    let watched = Watched(isFallback: isFallback, number: event.number)
    switch event.kind {
    case .unwatched: break
    case .overflow: for listener in allListeners { listener.call(.everything) }
    // Either the directory is gone, or its watch was stopped. In the second case it has no listeners left, and a new watch on the
    // same directory has a new number.
    case .end: for listener in listeners(of: watched, removing: true) { listener.call(.everything) }
    case .change:
      guard let name = event.name else {
        guard event.mask.contains(.attributes) else { return }
        for listener in listeners(of: watched) { listener.call(.directoryAttributes) }
        return
      }
      if !event.mask.isDisjoint(with: .names) {
        let change = Change.entry(name, wasMoved: !event.mask.isDisjoint(with: .moved))
        let kinds = event.mask.intersection(.names)
        let mayBeOwn = event.isOwn || !reportsCause(of: watched)
        let owner = mayBeOwn ? watches.withLock { $0.selfEvents.take(kinds, name, in: watched) } : nil
        for listener in listeners(of: watched) where listener.serial != owner || listener.receivesSelfEvents {
          listener.call(change)
        }
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

  private func listeners(of watched: Watched, removing: Bool = false) -> [Listener] {
    watches.withLock { watches in
      defer { if removing { watches.listeners[watched] = nil } }
      return watches.listeners[watched] ?? []
    }
  }

  private var allListeners: [Listener] { watches.withLock { Array($0.listeners.values.joined()) } }
}
