import BackingTree
import CFuse
import Glibc
import SystemPackage
import View

/// A request of the kernel, to be answered exactly once.
struct Request {
  let raw: fuse_req_t

  var server: Server { Unmanaged<Server>.fromOpaque(fuse_req_userdata(raw)!).takeUnretainedValue() }
  var view: View { server.view }

  var caller: Caller {
    let context = fuse_req_ctx(raw)!.pointee
    return Caller(user: context.uid, group: context.gid, process: context.pid, umask: context.umask)
  }

  func succeed() { fuse_reply_err(raw, 0) }
  func fail(_ error: Errno) { fuse_reply_err(raw, error.rawValue) }

  func reply(_ entry: Entry) {
    var out = parameters(entry)
    // The kernel did not hear of it, so it will not forget it either.
    if fuse_reply_entry(raw, &out) == -ENOENT { view.forget(entry.id, count: 1) }
  }

  func reply(attributes: stat) {
    var attributes = attributes
    fuse_reply_attr(raw, &attributes, 0)
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
    out.attr_timeout =
      entry.attributes.st_mode & S_IFMT == S_IFDIR ? server.caching.directoryAttributeTimeout : 0
    out.entry_timeout = server.caching.entryTimeout
    return out
  }

  /// What answers this request if the thread that replays changes made it: then it must change nothing.
  var replayed: ReplayAnswers? {
    guard let answers = server.replay?.answers,
      fuse_req_ctx(raw)!.pointee.pid == answers.thread.load(ordering: .acquiring)
    else { return nil }
    return answers
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

  /// Runs an operation that is answered with an entry.
  func performEntry(_ body: (View) throws(Errno) -> Entry) {
    do throws(Errno) { reply(try body(view)) } catch { fail(error) }
  }

  /// The same for an operation that may be a replayed one.
  func performEntry(
    _ body: (View) throws(Errno) -> Entry, replaying answer: (ReplayAnswers) throws(Errno) -> Entry
  ) {
    do throws(Errno) {
      if let replayed { reply(try answer(replayed)) } else { reply(try body(view)) }
    } catch { fail(error) }
  }
}

/// How long the kernel may answer from its own caches, in seconds.
struct CachingPolicy: Sendable {
  var entryTimeout: Double
  var directoryAttributeTimeout: Double
}
