import BackingTree
import CFuse
import Glibc
import SystemPackage
import View

/// A request of the kernel, to be answered exactly once. It is gone when it is answered.
struct Request {
  let raw: fuse_req_t
  /// It outlives its requests.
  unowned(unsafe) let server: Server

  init(raw: fuse_req_t) {
    self.raw = raw
    server = Unmanaged<Server>.fromOpaque(fuse_req_userdata(raw)!).takeUnretainedValue()
  }

  var view: View { server.view }

  var caller: Caller {
    let context = fuse_req_ctx(raw)!.pointee
    return Caller(user: context.uid, group: context.gid, process: context.pid, umask: context.umask)
  }

  /// Whether the client was interrupted (FUSE_INTERRUPT), or the session ends.
  var isInterrupted: Bool { fuse_req_interrupted(raw) != 0 || server.isEnding }

  func succeed() { fuse_reply_err(raw, 0) }
  /// EMFILE of the daemon becomes ENFILE: the client has not used up a limit of its own.
  func fail(_ error: Errno) {
    let isDaemons = error == .tooManyOpenFiles
    fuse_reply_err(raw, (isDaemons ? Errno.tooManyOpenFilesInSystem : error).rawValue)
  }

  /// Runs `body`, which opens something that the client keeps open, with so many descriptors counted for the client's user.
  /// They are given back when the handle is released, or at once when `body` fails.
  func counting(
    _ count: Int = 1, in descriptors: ClientDescriptors = .opened, _ body: () throws(Errno) -> Void
  ) throws(Errno) {
    let user = caller.user
    try descriptors.take(count, for: user)
    do throws(Errno) { try body() } catch {
      descriptors.giveBack(count, of: user)
      throw error
    }
  }

  /// Answers with what a name in a directory stands for.
  func reply(_ found: Entry, _ parent: NodeID, _ name: UnsafePointer<CChar>) {
    let view = view
    let entry = found.current
    var out = parameters(entry)
    if server.notifier.hasLostNames(parent) { out.entry_timeout = 0 }
    if fuse_reply_entry(raw, &out) == -ENOENT {
      // The kernel did not hear of it, so it will not forget it either.
      view.forget(entry.id, count: 1)
    }
    view.settle(entry, parent, name)
  }

  /// Answers GETATTR, of a directory when the kernel has dropped the stale names in it: a path walk asks for this before it
  /// looks at them.
  func replyAttributes(of id: NodeID) throws(Errno) {
    // A request is answered once, by any thread.
    nonisolated(unsafe) let request = self
    let client = fuse_req_ctx(raw)!.pointee.pid
    let isDeferred = server.notifier.defers(untilSettled: id, for: client) {
      do throws(Errno) { try request.replySettledAttributes(of: id) } catch { request.fail(error) }
    }
    if !isDeferred { try replySettledAttributes(of: id) }
  }

  private func replySettledAttributes(of id: NodeID) throws(Errno) {
    let view = view
    try view.refuseStaleName(of: id, caller)
    var attributes = try view.leasedAttributes(id)
    if server.notifier.isUnsettled(id) {
      // The next walk is to ask again.
      fuse_reply_attr(raw, &attributes.stat, 0)
      return
    }
    // Whoever looks at the mount point wants to know whether the mount answers.
    let longest = id == NodeTable.root ? min(1, view.keptFor) : view.keptFor
    fuse_reply_attr(raw, &attributes.stat, attributes.lease == nil ? 0 : longest)
    if let lease = attributes.lease { view.settle(lease, of: id) }
  }

  func reply(_ entry: Entry, created file: inout fuse_file_info, backing: CInt) -> Bool {
    var out = parameters(entry)
    return dfs_reply_create(raw, &out, &file, backing) != -ENOENT
  }

  func parameters(_ entry: Entry) -> fuse_entry_param {
    var out = fuse_entry_param()
    out.ino = entry.id
    out.generation = entry.generation
    out.attr = entry.attributes
    // What is told of a directory holds for the next question at least, which the kernel asks at once to see who may pass
    // (it makes a tick of this).
    let atOnce = entry.attributes.st_mode & S_IFMT == S_IFDIR ? 0.001 : 0
    out.attr_timeout = entry.attributesLease == nil ? atOnce : view.keptFor
    if server.notifier.isUnsettled(entry.id) { out.attr_timeout = 0 }
    out.entry_timeout = entry.nameLease == nil ? 0 : view.keptFor
    return out
  }

  /// What answers this request if the thread that replays changes made it: then it must change nothing.
  var replayed: ReplayAnswers? {
    server.replay?.answers[fuse_req_ctx(raw)!.pointee.pid]
  }

  /// Runs an operation whose success is answered with 0.
  func perform(_ body: (View) throws(Errno) -> Void) {
    do throws(Errno) {
      try body(view)
      succeed()
    } catch { fail(error) }
  }

  /// The same for an operation that may be a replayed one.
  func perform(
    _ body: (View) throws(Errno) -> Void, replaying answer: (ReplayAnswers) throws(Errno) -> Void
  ) {
    do throws(Errno) {
      if let replayed { try answer(replayed) } else { try body(view) }
      succeed()
    } catch { fail(error) }
  }

  /// Runs an operation that is answered with what a name stands for afterwards.
  func performEntry(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, _ body: (View) throws(Errno) -> Entry
  ) {
    do throws(Errno) { reply(try body(view), parent, name) } catch { fail(error) }
  }

  /// The same for an operation that may be a replayed one. What is replayed the kernel must not keep: it is so for the
  /// replaying thread alone.
  func performEntry(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, _ body: (View) throws(Errno) -> Entry,
    replaying answer: (ReplayAnswers) throws(Errno) -> Entry
  ) {
    guard let replayed else { return performEntry(parent, name, body) }
    do throws(Errno) { reply(try answer(replayed).unkept, parent, name) } catch { fail(error) }
  }
}
