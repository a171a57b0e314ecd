import BackingTree
import CFuse
import Glibc
import Logging
import SystemPackage
import View

/// A mounted view: the session with the kernel.
public final class Server: @unchecked Sendable {
  public let view: View
  let logger: Logger
  let passthrough = Passthrough()
  let keptContent = KeptContent()
  private let wantsPassthrough: Bool
  /// Whether all clients are root, if the daemon is. Set once by `run`, before any request can come.
  private var isForRootAlone = false
  private let liveOptions: LiveOptions?
  private let onReady: @Sendable () -> Void
  private let onStopping: @Sendable () -> Void
  private let operations: UnsafeMutablePointer<fuse_lowlevel_ops>
  let memoryReturn = MemoryReturn()
  /// Set once by `run`, before any request can come.
  private(set) var notifier: KernelNotifier!
  /// Nil where nothing can be replayed. Set once by `run`, before any request can come.
  private(set) var replay: Replay?
  /// Set once by `run`, before any request can come.
  private var session: OpaquePointer?
  private let loop = Guarded(Loop())

  /// The thread that waits for the session to end.
  private struct Loop: @unchecked Sendable {
    var session: OpaquePointer?
    var thread = pthread_t()
    var isStopping = false
  }

  /// Why a mount did not come about.
  public struct MountError: Error, CustomStringConvertible {
    public let description: String
  }

  /// - Parameters:
  ///   - passthrough: whether the kernel shall read and write the backing files itself where it can.
  ///   - onReady: called once, when the kernel has greeted the daemon: from then on the mount answers.
  ///   - liveOptions: gives the options anew; nil where they cannot be changed.
  ///   - onStopping: called once, when it answers no more requests.
  public init(
    view: View, passthrough: Bool = true, liveOptions: LiveOptions? = nil,
    onReady: @escaping @Sendable () -> Void, onStopping: @escaping @Sendable () -> Void = {}
  ) {
    self.onStopping = onStopping
    self.view = view
    self.liveOptions = liveOptions
    wantsPassthrough = passthrough
    self.onReady = onReady
    logger = view.logger
    operations = .allocate(capacity: 1)
    operations.initialize(to: Operations.table())
  }

  deinit { operations.deallocate() }

  /// Mounts, serves until the view is unmounted or the process is told to stop, and unmounts.
  ///
  /// - Parameters:
  ///   - options: for libfuse and the kernel, each the bytes of `name` or `name=value`.
  ///   - debug: libfuse prints every request to standard error.
  public func run(at mountPoint: FilePath, options: [[UInt8]], debug: Bool) throws(MountError) {
    isForRootAlone = !options.contains(Array("allow_other".utf8))
    let arguments =
      (debug ? ["displayfs", "-d"] : ["displayfs"]).map { Array($0.utf8) }
      + options.flatMap { [Array("-o".utf8), $0] }
    var cArguments: [UnsafeMutablePointer<CChar>?] = arguments.map { $0.withCName { strdup($0) } } + [nil]
    defer { for argument in cArguments { free(argument) } }
    let userdata = Unmanaged.passUnretained(self).toOpaque()
    if ["allow_other", "allow_root"].contains(where: { options.contains(Array($0.utf8)) }) {
      ClientDescriptors.share()
    }
    session = cArguments.withUnsafeMutableBufferPointer {
      dfs_session_new(
        CInt(arguments.count), $0.baseAddress!, operations, MemoryLayout<fuse_lowlevel_ops>.size, userdata)
    }
    guard let session else {
      let given = String(decoding: Array(options.joined(separator: ",".utf8)), as: UTF8.self)
      throw MountError(description: "libfuse refused the options \(given)")
    }
    // A thread that still waits for a lock returns to the session.
    var mayDestroy = true
    defer { if mayDestroy { fuse_session_destroy(session) } }
    guard mountPoint.withPlatformString({ dfs_session_mount(session, $0) }) == 0 else {
      throw MountError(description: "\(mountPoint) could not be mounted on; the line above says why")
    }
    passthrough.begin(session, isWanted: wantsPassthrough)
    defer { passthrough.end() }
    var guardian = mountPoint.withPlatformString {
      dfs_guardian_start($0, CommandLine.argc, CommandLine.unsafeArgv)
    }
    defer { dfs_guardian_end(guardian) }
    let notifier = KernelNotifier(session: session, view: view, keptContent: keptContent)
    self.notifier = notifier
    if !options.contains(Array("ro".utf8)) {
      if !view.finishStaged() { Thread { [view] in view.finishStaged(waits: true) }?.detach() }
      replay = Replay(view: view, mountPoint: mountPoint, notifier: notifier)
    }
    let canAnnounce = announceWhenAnswering(mountPoint)
    let returning = Thread { [memoryReturn, view] in memoryReturn.run(view) }
    let notifying = NotifierThreads(view: view, notifier: notifier, replay: replay)
    nonisolated(unsafe) let served = session
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
    fuse_session_unmount(session)
    if !notifying.waitUntilEnded() {
      // A message waits for a lock that a client holds which waits for a reply, and keeps the connection open.
      dfs_guardian_abort(guardian)
      guardian = -1
      mayDestroy = notifying.waitUntilEnded()
    }
    memoryReturn.end()
    returning?.join()
    view.settleImports()
    // libfuse says no more when it cannot make the first of its threads.
    if result == -EAGAIN || result == -1 {
      throw MountError(
        description:
          "no thread can be made to serve the mount: raise the limit of processes (ulimit -u) of this user, or "
          + "pids.max of this control group")
    }
    if result < 0 {
      throw MountError(description: "the session with the kernel broke: \(Errno(rawValue: -result))")
    }
  }

  /// Ends `run` from another thread; it returns when the requests that are under way have been answered. False when that
  /// was asked for before.
  public func stop() -> Bool {
    let isFirst = loop.withLock { loop in
      defer { loop.isStopping = true }
      return !loop.isStopping
    }
    guard isFirst else { return false }
    // The thread that waits looks at the session when it is interrupted. It may have looked just before.
    var interrupting = sigaction()
    interrupting.__sigaction_handler.sa_handler = { _ in }
    sigaction(SIGURG, &interrupting, nil)
    let waking = Thread { [self] in
      while loop.withLock({ loop in
        guard let session = loop.session else { return false }
        fuse_session_exit(session)
        pthread_kill(loop.thread, SIGURG)
        return true
      }) { usleep(10_000) }
    }
    waking?.detach()
    return true
  }

  /// Whether the session ends: no worker may wait any longer.
  var isEnding: Bool { session.map { fuse_session_exited($0) != 0 } ?? true }

  /// What `displayfs status` prints.
  public var statistics: String { String(decoding: Statistics.report(of: self), as: UTF8.self) }

  /// Reads the options anew.
  public func reload() {
    guard let liveOptions else { return }
    if let problem = liveOptions.apply(nil, to: view) {
      logger.error("the options stay as they are: \(problem)")
    } else {
      logger.notice("the options were read anew")
    }
  }

  /// Changes an option of the live view. - Returns: what is wrong, as a sentence; nothing when it is done.
  func set(_ setting: String, for caller: Caller) throws(Errno) -> String {
    guard caller.user == 0 || caller.user == geteuid() else { throw .notPermitted }
    guard let liveOptions else { throw Errno(rawValue: ENODATA) }
    return liveOptions.apply(setting, to: view) ?? ""
  }

  /// The kernel's INIT: what both sides can do. Called before any other request.
  func negotiate(_ connection: inout fuse_conn_info) {
    // libfuse's capabilities have been of several types.
    func want(_ capability: some BinaryInteger) {
      if connection.capable & UInt32(capability) != 0 { connection.want |= UInt32(capability) }
    }
    // ACLs are checked by the kernel; the umask is applied by the backing file system, which knows about default ACLs.
    want(FUSE_CAP_POSIX_ACL)
    want(FUSE_CAP_DONT_MASK)
    // Who lists a directory keeps nobody from looking there. Here the kernel's flag and libfuse's are the same, and libfuse before
    // 3.17 does not pass it on.
    dfs_init_want(UInt64(FUSE_CAP_PARALLEL_DIROPS))
    // Linux 6.14, of which nothing else tells: vendors' kernels take such a change with the rest of its version.
    view.noteNamesStable(connection.proto_minor >= 42)
    // A spliced request cannot be looked at before libfuse does.
    connection.want &= ~UInt32(FUSE_CAP_SPLICE_READ)
    passthrough.negotiate(
      &connection, isStacked: view.fileSystem.isOverlay,
      isForRootAlone: isForRootAlone)
    // As many as the protocol has room for. The kernel holds back every background request (RELEASE, readahead, direct I/O) while
    // so many are in flight, of whatever user. How many are served at once the request loop decides, for each user.
    connection.max_background = UInt32(UInt16.max)
    connection.congestion_threshold = UInt32(UInt16.max)
  }

  /// Asks the mount from a thread of its own: the kernel lets that wait until the session is complete, so the answer
  /// is what the first user will get.
  ///
  /// - Returns: whether there was a thread left for it.
  private func announceWhenAnswering(_ mountPoint: FilePath) -> Bool {
    let asking = Thread { [onReady] in
      do throws(Errno) { _ = try mountPoint.stat() } catch {
        guard error == .permissionDenied else { return }
      }
      onReady()
    }
    asking?.detach()
    return asking != nil
  }
}
