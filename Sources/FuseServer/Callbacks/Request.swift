import BackingTree
import CFuse
import CLinux
import Glibc
import SystemPackage
import View

/// A request of the kernel that a client made. It gets exactly one reply, which frees it.
///
/// A callback reaches the view through a `Request` alone, and only the gate below makes one.
struct Request {
  let raw: fuse_req_t
  /// The server outlives its requests.
  unowned(unsafe) let server: Server

  fileprivate init(raw: fuse_req_t) {
    self.raw = raw
    server = Unmanaged<Server>.fromOpaque(fuse_req_userdata(raw)!).takeUnretainedValue()
  }

  var view: View { server.view }

  var client: Client {
    let context = fuse_req_ctx(raw)!.pointee
    return Client(user: context.uid, group: context.gid, thread: context.pid, umask: context.umask)
  }

  /// Whether the client was interrupted (FUSE_INTERRUPT), or the session is ending.
  var isInterrupted: Bool { fuse_req_interrupted(raw) != 0 || server.isEnding }

  /// Counts descriptors for the client's user and runs `body`, which opens something that the client keeps open. The
  /// descriptors are given back when the handle is released, or at once if `body` fails.
  func reservingDescriptors(
    _ count: Int = 1, in descriptors: ClientDescriptors = .opened, _ body: () throws(Errno) -> Void
  ) throws(Errno) {
    let user = client.user
    try descriptors.reserve(count, for: user)
    do throws(Errno) { try body() } catch {
      descriptors.release(count, of: user)
      throw error
    }
  }
}

/// The gate in front of all callbacks: it tells apart the requests of clients and those of replay threads, which must change
/// nothing.
///
/// Each callback passes its request to one of these functions. The body replies, or throws the error to reply with.
extension Request {
  /// Serves a request that replay threads have no use for: a replay thread gets EIO.
  static func serve(_ raw: fuse_req_t?, _ body: (Request) throws(Errno) -> Void) {
    serve(raw, body) { (_) throws(Errno) in throw .ioError }
  }

  /// Serves a request that a replay thread makes in order to repeat a change.
  ///
  /// - Parameter replay: replies to a replay thread. It has no `Request`, so it cannot act on the view.
  static func serve(
    _ raw: fuse_req_t?, _ body: (Request) throws(Errno) -> Void,
    replay: (ReplayedRequest) throws(Errno) -> Void
  ) {
    let request = Request(raw: raw!)
    do throws(Errno) {
      if let responder = request.server.replay?.responders[fuse_req_ctx(raw)!.pointee.pid] {
        try replay(ReplayedRequest(request, responder))
      } else {
        try body(request)
      }
    } catch { request.fail(error) }
  }

  /// The same for requests on one node or two. The gate turns the nodeids by which the kernel knows them into nodes.
  @inline(__always)
  static func serve(
    _ raw: fuse_req_t?, _ nodeid: fuse_ino_t, _ body: (Request, NodeID) throws(Errno) -> Void
  ) {
    serve(raw) { (request) throws(Errno) in try request.followingHandle(to: nodeid, body) }
  }

  @inline(__always)
  static func serve(
    _ raw: fuse_req_t?, _ nodeid: fuse_ino_t, _ body: (Request, NodeID) throws(Errno) -> Void,
    replay: (ReplayedRequest, NodeID) throws(Errno) -> Void
  ) {
    serve(raw) { (request) throws(Errno) in
      try request.followingHandle(to: nodeid, body)
    } replay: { (replayed) throws(Errno) in
      try replay(replayed, replayed.node(nodeid))
    }
  }

  @inline(__always)
  static func serve(
    _ raw: fuse_req_t?, _ nodeid: fuse_ino_t, _ other: fuse_ino_t,
    _ body: (Request, NodeID, NodeID) throws(Errno) -> Void
  ) {
    serve(raw) { (request) throws(Errno) in try body(request, request.node(nodeid), request.node(other)) }
  }

  /// Serves a request on one node. Where the node's file was moved in the backing tree, a client that came by a name gets
  /// ESTALE, and walks the path again. One that came by a file handle means the file wherever it is.
  @inline(__always)
  private func followingHandle(
    to nodeid: fuse_ino_t, _ body: (Request, NodeID) throws(Errno) -> Void
  ) throws(Errno) {
    let node = try node(nodeid)
    if !server.isExported { return try body(self, node) }
    // The node's name may be that of a new file with the same inode number by now. A client by name means the new file.
    if !view.isCurrent(node, nodeid), view.cameByHandle(client), !view.follow(node, nodeid, for: client) {
      throw Errno(rawValue: ESTALE)
    }
    do throws(Errno) { try body(self, node) } catch {
      guard error.rawValue == ESTALE, view.cameByHandle(client), view.follow(node, nodeid, for: client) else {
        throw error
      }
      try body(self, node)
    }
  }

  /// The node that the kernel knows by a nodeid.
  ///
  /// - Throws: ESTALE when there is none. The kernel looks the name up again.
  @inline(__always)
  func node(_ nodeid: fuse_ino_t) throws(Errno) -> NodeID {
    if !server.isExported { return NodeID(UInt32(truncatingIfNeeded: nodeid)) }
    guard let node = view.nodes.node(nodeid: nodeid) else { throw Errno(rawValue: ESTALE) }
    return node
  }

  /// Serves a request that changes nothing, and that the kernel also makes for replay threads while it walks their paths.
  static func serveRead(
    _ raw: fuse_req_t?, _ nodeid: fuse_ino_t, _ body: (Request, NodeID) throws(Errno) -> Void
  ) {
    let request = Request(raw: raw!)
    do throws(Errno) { try request.followingHandle(to: nodeid, body) } catch { request.fail(error) }
  }

  /// Serves a message that gives back what an earlier reply gave to the kernel (FORGET, RELEASE). It cannot be refused.
  static func serveRelease(_ raw: fuse_req_t?, _ body: (Request) -> Void) { body(Request(raw: raw!)) }
}

/// Replies.
extension Request {
  func succeed() { fuse_reply_err(raw, 0) }

  /// Replies with an error. EMFILE of the daemon becomes ENFILE: the client has not reached a limit of its own.
  func fail(_ error: Errno) {
    let isDaemonLimit = error == .tooManyOpenFiles
    fuse_reply_err(raw, (isDaemonLimit ? Errno.tooManyOpenFilesInSystem : error).rawValue)
  }

  /// Replies with the entry of a name in a directory.
  func reply(_ entry: consuming Entry, _ parent: NodeID, _ name: UnsafePointer<CChar>) {
    let view = view
    entry.dropStaleVersions()
    var out = parameters(entry)
    if server.notifier.hasOverflowed(parent) { out.entry_timeout = 0 }
    if fuse_reply_entry(raw, &out) == -ENOENT {
      // The reply did not reach the kernel, so no FORGET will follow.
      view.forget(entry.id, count: 1)
    }
    view.revalidateAfterReply(entry, parent, name)
  }

  /// Replies with the entry of a node that the kernel looked up by its nodeid alone. The kernel must not cache it: there is no
  /// name to invalidate.
  func reply(reopened entry: Entry) {
    var out = parameters(entry.uncached)
    if fuse_reply_entry(raw, &out) == -ENOENT { view.forget(entry.id, count: 1) }
  }

  func reply(_ entry: Entry, created file: inout fuse_file_info, backing: CInt) -> Bool {
    var out = parameters(entry)
    return dfs_reply_create(raw, &out, &file, backing) != -ENOENT
  }

  /// - Parameter entry: without stale versions (``Entry/dropStaleVersions()``).
  func parameters(_ entry: Entry) -> fuse_entry_param {
    var out = fuse_entry_param()
    out.ino = entry.nodeid
    out.generation = entry.generation
    out.attr = entry.attributes
    // A directory's attributes stay valid for the permission check that follows at once (the kernel turns this timeout into one
    // tick).
    let directoryTimeout = entry.attributes.st_mode & S_IFMT == S_IFDIR ? 0.001 : 0
    out.attr_timeout = entry.attributesVersion != nil ? view.cacheTimeout : directoryTimeout
    if server.notifier.mayHoldStaleNames(entry.id) { out.attr_timeout = 0 }
    out.entry_timeout = entry.nameVersion != nil ? view.cacheTimeout : 0
    return out
  }

  /// Replies to GETATTR or STATX. For a directory with stale names, the reply is deferred until the kernel has dropped them: a
  /// path walk requests the attributes before it uses the names.
  func replyAttributes(of id: NodeID) throws(Errno) {
    let isStatx = dfs_is_statx()
    guard server.notifier.mayHoldStaleNames(id) else {
      return try replyAttributesNow(of: id, isStatx: isStatx)
    }
    // A request gets one reply, from any thread.
    nonisolated(unsafe) let request = self
    let client = fuse_req_ctx(raw)!.pointee.pid
    let isDeferred = server.notifier.deferReply(untilNamesDropped: id, for: client) {
      do throws(Errno) { try request.replyAttributesNow(of: id, isStatx: isStatx) } catch {
        request.fail(error)
      }
    }
    if !isDeferred { try replyAttributesNow(of: id, isStatx: isStatx) }
  }

  private func replyAttributesNow(of id: NodeID, isStatx: Bool) throws(Errno) {
    do throws(Errno) { try replyAttributesOnce(of: id, isStatx: isStatx) } catch {
      // The client's name is stale, or the file has just left it.
      if error.rawValue == ESTALE { try view.refuse([id], client) }
      throw error
    }
  }

  private func replyAttributesOnce(of id: NodeID, isStatx: Bool) throws(Errno) {
    let view = view
    try view.refuseStaleName(of: id, client)
    let attributes = try view.versionedAttributes(id)
    let birth = isStatx ? view.birthTime(of: id) : nil
    func reply(timeout: Double) {
      var status = attributes.stat
      if !isStatx {
        fuse_reply_attr(raw, &status, timeout)
      } else if var birth {
        dfs_reply_statx(raw, &status, &birth, timeout)
      } else {
        dfs_reply_statx(raw, &status, nil, timeout)
      }
    }
    // Timeout 0, so that the next path walk requests the attributes again.
    if server.notifier.mayHoldStaleNames(id) { return reply(timeout: 0) }
    // A stat of the mount point is used to check whether the daemon replies, so its attributes are cached for at most a second.
    let timeout = id == NodeTable.root ? min(1, view.cacheTimeout) : view.cacheTimeout
    reply(timeout: attributes.version == nil ? 0 : timeout)
    if let version = attributes.version { view.revalidateAfterReply(version, of: id) }
  }

  /// Replies with a value, or with its length if the client requests only that (size 0).
  func replyValue(
    _ size: Int, _ body: (UnsafeMutableRawBufferPointer) throws(Errno) -> Int
  ) throws(Errno) {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
    defer { buffer.deallocate() }
    let count = try body(buffer)
    if size == 0 {
      fuse_reply_xattr(raw, count)
    } else {
      fuse_reply_buf(raw, buffer.baseAddress!.assumingMemoryBound(to: CChar.self), count)
    }
  }
}
