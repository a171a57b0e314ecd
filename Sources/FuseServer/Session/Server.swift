import BackingTree
import CFuse
import CLinux
import Glibc
import Logging
import SystemPackage
import View

/// A mounted view: the session with the kernel.
public final class Server: @unchecked Sendable {
  package let view: View
  /// Whether nodeids are not those of the node table. (``View/isExported``)
  let isExported: Bool
  let logger: Logger
  let passthrough = Passthrough()
  let pageCachePolicy = PageCachePolicy()
  /// The locks of clients; nil where the kernel keeps them.
  let locks: FileLocks?
  private let wantsPassthrough: Bool
  /// Whether root is the only possible client, if the daemon runs as root. Set once by `run`, before the first request.
  private var isForRootAlone = false
  private let liveOptions: LiveOptions?
  private let onReady: @Sendable () -> Void
  private let onStopping: @Sendable () -> Void
  private let operations: UnsafeMutablePointer<fuse_lowlevel_ops>
  private let forgottenNodes = ForgottenNodes()
  private let knownFilesLimit = KnownFilesLimit()
  /// Set once by `run`, before the first request.
  private(set) var notifier: KernelNotifier!
  /// Nil where nothing can be replayed. Set once by `run`, before the first request.
  private(set) var replay: Replay?
  /// Set once by `run`, before the first request.
  private var session: OpaquePointer?
  private let loop = Guarded(Loop())

  /// The thread that waits for the session to end.
  private struct Loop: @unchecked Sendable {
    var session: OpaquePointer?
    var thread = pthread_t()
    var isStopping = false
    var mount: MountTable.Line?
    /// The session while its descriptor is the connection of the mount: from the mount until the daemon closes the connection.
    var connected: OpaquePointer?
    var isUnmounting = false
  }

  private let unmounted = Semaphore()

  /// The mount that is served; nil before it is made.
  public var mount: MountTable.Line? { loop.withLock { $0.mount } }

  /// Whether the kernel still has the connection of the mount. It ends when the mount is gone, and also when it is aborted: then
  /// the mount stays as it is, as with other servers of libfuse.
  public var isConnected: Bool {
    loop.withLock { loop in loop.connected.map { dfs_session_is_connected($0) } ?? false }
  }

  /// Waits until the mount is unmounted if `run` is about to do that, a second at most.
  public func waitForUnmount() {
    if loop.withLock({ $0.isUnmounting }) { unmounted.wait(milliseconds: 1000) }
  }

  /// Why mounting or serving failed.
  public struct MountError: Error, CustomStringConvertible {
    public let description: String
    /// The mount, which may have been left: fusermount3, which unmounts for ordinary users, is a further process.
    public var mount: MountTable.Line?
  }

  /// - Parameters:
  ///   - passthrough: whether the kernel reads and writes the backing files itself where it can.
  ///   - locks: where the locks of clients are kept.
  ///   - onReady: called once, when the INIT handshake is done and the mount serves requests.
  ///   - liveOptions: reads the options anew; nil if they cannot be changed.
  ///   - onStopping: called once, when the mount serves no more requests.
  package init(
    view: View, passthrough: Bool = true, locks: LockMode = .auto, liveOptions: LiveOptions? = nil,
    onReady: @escaping @Sendable () -> Void, onStopping: @escaping @Sendable () -> Void = {}
  ) {
    self.onStopping = onStopping
    self.view = view
    isExported = view.isExported
    self.liveOptions = liveOptions
    wantsPassthrough = passthrough
    self.onReady = onReady
    logger = view.logger
    self.locks = locks.passesLocks(on: view.source.fileSystem) ? FileLocks() : nil
    operations = .allocate(capacity: 1)
    operations.initialize(to: Operations.table(passesLocks: self.locks != nil))
  }

  deinit { operations.deallocate() }

  /// Mounts, serves until the view is unmounted or `stop` is called, and unmounts.
  ///
  /// - Parameters:
  ///   - options: the options for libfuse and the kernel, each the bytes of `name` or `name=value`.
  ///   - debug: whether libfuse prints every request to standard error.
  public func run(at mountPoint: FilePath, options: [[UInt8]], debug: Bool) throws(MountError) {
    isForRootAlone = !options.contains(Array("allow_other".utf8))
    let arguments =
      (debug ? ["displayfs", "-d"] : ["displayfs"]).map { Array($0.utf8) }
      + options.flatMap { [Array("-o".utf8), $0] }
    var cArguments: [UnsafeMutablePointer<CChar>?] = arguments.map { $0.withCName { strdup($0) } } + [nil]
    defer { for argument in cArguments { free(argument) } }
    let userdata = Unmanaged.passUnretained(self).toOpaque()
    if ["allow_other", "allow_root"].contains(where: { options.contains(Array($0.utf8)) }) {
      ClientDescriptors.limitPerUser()
      HeapArenas.allowOnePerThread()
    }
    session = cArguments.withUnsafeMutableBufferPointer {
      dfs_session_new(
        CInt(arguments.count), $0.baseAddress!, operations, MemoryLayout<fuse_lowlevel_ops>.size, userdata)
    }
    guard let session else {
      let given = String(decoding: Array(options.joined(separator: ",".utf8)), as: UTF8.self)
      throw MountError(description: "libfuse refused the options \(given)")
    }
    // False while a notifier thread waits for a lock: it will use the session when it continues.
    var mayDestroy = true
    defer { if mayDestroy { fuse_session_destroy(session) } }
    guard mountPoint.withPlatformString({ dfs_session_mount(session, $0) }) == 0 else {
      throw MountError(description: "cannot mount at \(mountPoint); the line above gives the reason")
    }
    let mount = MountTable.topmost(at: mountPoint)
    nonisolated(unsafe) let served = session
    loop.withLock {
      $0.mount = mount
      $0.connected = served
    }
    passthrough.begin(session, isWanted: wantsPassthrough)
    defer { passthrough.end() }
    var guardian = mountPoint.withPlatformString {
      dfs_guardian_start($0, CommandLine.argc, CommandLine.unsafeArgv)
    }
    defer { dfs_guardian_end(guardian) }
    let isWritable = !options.contains(Array("ro".utf8))
    if isWritable, !view.cleanUpStaging() { Thread { [view] in view.cleanUpStaging(waits: true) }?.detach() }
    prepare(for: session, at: mountPoint, replays: isWritable)
    let canAnnounce = announceWhenReady(mountPoint)
    forgottenNodes.start(view.nodes)
    knownFilesLimit.start(view.nodes, session)
    let notifying = NotifierThreads(view: view, notifier: notifier, replay: replay)
    let isWanted = loop.withLock {
      $0.session = served
      $0.thread = pthread_self()
      return !$0.isStopping
    }
    let result =
      !canAnnounce ? -EAGAIN : isWanted ? dfs_session_loop(session, UInt32(DescriptorLimit.workers), 0) : 0
    loop.withLock { $0.session = nil }
    onStopping()
    notifying.stop()
    locks?.waiters.stop()
    knownFilesLimit.stop()
    unmount(session)
    if !notifying.waitUntilEnded() {
      // A message waits for a lock of a client that waits for a reply itself. That keeps the connection open.
      dfs_guardian_abort(guardian)
      guardian = -1
      mayDestroy = notifying.waitUntilEnded()
    }
    if let locks, !locks.waiters.waitUntilEnded() { mayDestroy = false }
    if !knownFilesLimit.waitUntilEnded() { mayDestroy = false }
    forgottenNodes.end()
    view.finishImports()
    // libfuse reports no details when it cannot create its first thread.
    if result == -EAGAIN || result == -1 {
      throw MountError(
        description:
          "cannot create a thread to serve the mount: raise the limit of processes (ulimit -u) of this user, or "
          + "pids.max of this control group", mount: mount)
    }
    if result < 0 {
      throw MountError(description: "the FUSE session failed: \(Errno(rawValue: -result))", mount: mount)
    }
  }

  /// Ends the connection, and unmounts the mount but no other that its path, or its ID, may lead to by now.
  private func unmount(_ session: OpaquePointer) {
    loop.withLock { $0.isUnmounting = true }
    defer { unmounted.post() }
    guard let mount else {
      loop.withLock { $0.connected = nil }
      return fuse_session_unmount(session)
    }
    if geteuid() != 0 { return unmountAsUser(mount, session) }
    do throws(Errno) {
      // Disconnected first, as an unmount that writes dirty pages back would wait for a reply.
      try mount.unmount(CInt(MNT_DETACH)) { disconnect(session) }
    } catch {
      // ENOENT: it was unmounted, which has ended the session.
      if error != .noSuchFileOrDirectory {
        logger.warning("\(mount.mountPoint) cannot be unmounted: \(error); unmount it by hand")
      }
    }
    _ = disconnect(session)
  }

  /// The same by fusermount3, which takes a path: that of the mount's present place, as a directory above may have been renamed.
  private func unmountAsUser(_ mount: MountTable.Line, _ session: OpaquePointer) {
    guard disconnect(session) else { return }
    var error = Errno.staleNFSFileHandle
    // The directory may be renamed again meanwhile.
    for _ in 0..<20 {
      guard let present = mount.present else { return }
      if present.isTopmost {
        error = Errno(rawValue: present.mountPoint.withPlatformString { dfs_unmount_as_user($0) })
        if error.rawValue == 0 { return }
      }
      usleep(5000)
    }
    logger.warning("\(mount.mountPoint) cannot be unmounted: \(error); unmount it by hand")
  }

  /// Ends the connection. - Returns: whether the kernel had not ended it before.
  private func disconnect(_ session: OpaquePointer) -> Bool {
    let isFirst = loop.withLock { loop in
      defer { loop.connected = nil }
      return loop.connected != nil
    }
    guard isFirst else { return false }
    let wasConnected = dfs_session_is_connected(session)
    dfs_session_disconnect(session)
    return wasConnected
  }

  /// Has the kernel write what clients have written through mappings, while requests are served: no file is closed when the daemon
  /// is stopped, and what is not written by then is lost.
  private func writeBack() {
    guard isConnected, let mount = mount?.present, let root = try? mount.mountPoint.openDirectory() else {
      return
    }
    guard let status = try? fileStatus(root.rawValue), mount.isFileSystem(of: UInt64(status.st_dev)),
      let readable = try? Directory(descriptor: root.rawValue).openForReading()
    else { return }
    do throws(Errno) { try syncFileSystem(of: readable.rawValue) } catch {
      logger.warning("\(mount.mountPoint): what programs have written through mappings may be lost: \(error)")
    }
    // Newer kernels do not wait for the replies to these WRITEs (Linux 6.18). Requests are received in their order: when the reply to a
    // STATFS arrives, the WRITEs have been received.
    _ = FileSystemKind(of: readable.rawValue)
    while dfs_receive_writes_pages() { usleep(1000) }
  }

  /// Makes what callbacks use. Called before the first request.
  func prepare(for session: OpaquePointer, at mountPoint: FilePath, replays: Bool) {
    notifier = KernelNotifier(session: session, view: view, pageCachePolicy: pageCachePolicy)
    if replays { replay = Replay(view: view, mountPoint: mountPoint, mount: mount, notifier: notifier) }
  }

  /// Ends `run` from another thread. `run` returns after the replies to all requests in progress. Walks of packages are
  /// interrupted.
  ///
  /// - Returns: false if the end was requested before.
  public func stop() -> Bool {
    let isFirst = loop.withLock { loop in
      defer { loop.isStopping = true }
      return !loop.isStopping
    }
    guard isFirst else { return false }
    // A signal interrupts the waiting thread, which then checks the session. It may have checked just before the signal, so the
    // signal is repeated.
    var interrupting = sigaction()
    interrupting.__sigaction_handler.sa_handler = { _ in }
    sigaction(SIGURG, &interrupting, nil)
    let waking = Thread { [self] in
      writeBack()
      while loop.withLock({ loop in
        guard let session = loop.session else { return false }
        fuse_session_exit(session)
        dfs_receive_stop()
        pthread_kill(loop.thread, SIGURG)
        return true
      }) { usleep(10_000) }
    }
    waking?.detach()
    return true
  }

  /// Whether the kernel must send FLUSH when a client closes a file, or nil for a package: a process loses its locks then.
  func needsFlush(_ file: OpenFile?) -> Bool { locks != nil || file?.needsFlush ?? false }

  /// Whether the session is ending: no worker may wait any longer.
  var isEnding: Bool { session.map { fuse_session_exited($0) != 0 } ?? true }

  /// The report that `displayfs status` prints.
  public var statistics: String { String(decoding: Statistics.report(of: self), as: UTF8.self) }

  /// Reads the options anew.
  public func reload() {
    guard let liveOptions else { return }
    if let problem = liveOptions.apply(nil, to: view) {
      logger.error("the options were not changed: \(problem)")
    } else {
      logger.notice("the options were reloaded")
    }
  }

  /// Changes an option of the live view.
  ///
  /// - Returns: an error message; empty on success.
  /// - Throws: EPERM for a client that is neither root nor the daemon's user, ENODATA if options cannot be changed.
  func set(_ setting: String, for client: Client) throws(Errno) -> String {
    guard client.user == 0 || client.user == geteuid() else { throw .notPermitted }
    guard let liveOptions else { throw Errno(rawValue: ENODATA) }
    return liveOptions.apply(setting, to: view) ?? ""
  }

  /// Handles the kernel's INIT, the first request: negotiates what both sides support.
  func negotiate(_ connection: inout fuse_conn_info) {
    // The type of libfuse's capability constants differs between versions.
    func want(_ capability: some BinaryInteger) {
      if connection.capable & UInt32(capability) != 0 { connection.want |= UInt32(capability) }
    }
    // The kernel checks ACLs. The backing file system applies the umask, as it knows default ACLs.
    want(FUSE_CAP_POSIX_ACL)
    want(FUSE_CAP_DONT_MASK)
    if isExported {
      want(FUSE_CAP_EXPORT_SUPPORT)
    } else {
      dfs_init_request(DFS_NO_EXPORT_SUPPORT)
    }
    // READDIR does not block LOOKUP in the same directory. For this flag, the kernel's bit and libfuse's bit are the same, and
    // libfuse before 3.17 does not pass it on.
    dfs_init_request(UInt64(FUSE_CAP_PARALLEL_DIROPS))
    // Since Linux 6.14, the kernel looks up the name that the client gave, even if the name changes meanwhile. Only protocol
    // version 7.42 shows that: vendor kernels backport such a change together with its version.
    view.setLookupNamesStable(connection.proto_minor >= 42)
    // Without it the kernel requests security.capability before each write.
    dfs_init_request(DFS_HANDLE_KILLPRIV_V2)
    // Content goes from the file into the reply without a copy in the daemon: sequential reading is 2 to 3 times as fast, a read of
    // 128 KiB takes 117 µs instead of 208, one of 8 KiB 24 instead of 26 (Linux 6.18, tmpfs, by hand). libfuse copies smaller ones.
    // FUSE_CAP_SPLICE_MOVE makes it slower.
    if DescriptorLimit.allowsPipes { want(FUSE_CAP_SPLICE_WRITE) }
    // A spliced request cannot be inspected before libfuse parses it.
    connection.want &= ~UInt32(FUSE_CAP_SPLICE_READ)
    passthrough.negotiate(
      &connection, isStacked: view.source.fileSystem.isOverlay,
      isForRootAlone: isForRootAlone)
    // The protocol's maximum. The kernel holds back every background request (RELEASE, readahead, direct I/O) while this many
    // are in flight, of all users together. The request loop limits how many are served at once, for each user.
    connection.max_background = UInt32(UInt16.max)
    connection.congestion_threshold = UInt32(UInt16.max)
  }

  /// Calls stat(2) on the mount point from a separate thread, then `onReady`. The kernel blocks the call until INIT is
  /// complete, so its result is what the first client will get.
  ///
  /// - Returns: whether the thread could be started.
  private func announceWhenReady(_ mountPoint: FilePath) -> Bool {
    let probe = Thread { [onReady] in
      do throws(Errno) { _ = try mountPoint.stat() } catch {
        guard error == .permissionDenied else { return }
      }
      onReady()
    }
    probe?.detach()
    return probe != nil
  }
}
