import BackingTree
import CFuse
import CLinux
import Glibc
import SystemPackage
import View

/// A request of a replay thread, which repeats a change that was made behind the mount. It is replied to from what
/// ``ReplayResponder`` says, and can do nothing else to the view.
struct ReplayedRequest {
  private let request: Request
  let responder: ReplayResponder

  init(_ request: Request, _ responder: ReplayResponder) {
    self.request = request
    self.responder = responder
  }

  func succeed() { request.succeed() }

  func node(_ nodeid: fuse_ino_t) throws(Errno) -> NodeID { try request.node(nodeid) }

  /// Replies with an entry. The kernel must not cache it: it holds for the replay thread alone.
  func reply(_ entry: Entry, _ parent: NodeID, _ name: UnsafePointer<CChar>) {
    request.reply(entry.uncached, parent, name)
  }

  /// Replies to MKNOD, MKDIR and SYMLINK with the entry that is there already.
  func make(_ parent: NodeID, _ name: UnsafePointer<CChar>) throws(Errno) {
    reply(try responder.make(parent, name), parent, name)
  }

  /// Replies to UNLINK and RMDIR of a name that is gone already.
  func remove(_ parent: NodeID, _ name: UnsafePointer<CChar>) throws(Errno) {
    try responder.remove(parent, name)
    succeed()
  }

  /// Replies with attributes that the kernel must not cache.
  func reply(_ attributes: stat) {
    var attributes = attributes
    fuse_reply_attr(request.raw, &attributes, 0)
  }

  func replyValue(_ size: Int, _ body: (UnsafeMutableRawBufferPointer) throws(Errno) -> Int) throws(Errno) {
    try request.replyValue(size, body)
  }

  /// Replies to OPEN. No file is opened: the kernel's event is all that is wanted.
  ///
  /// The node's other opens stay as they are: this one joins their passthrough, or uses direct I/O.
  func open(_ node: NodeID, _ info: UnsafeMutablePointer<fuse_file_info>) {
    let backing = request.server.passthrough.joinOpen(node)
    info.pointee.direct_io = backing == 0 ? 1 : 0
    info.pointee.fh = Handle.make(
      ReplayedOpen(node, isPassedThrough: backing != 0), of: request.client, descriptors: 0)
    // On RELEASE the kernel closes the backing file as well: the event of that is a self event.
    if backing != 0 { responder.noteReplayed(node) }
    if dfs_reply_open(request.raw, info, backing) == -ENOENT { Handle.close(info, for: request) }
  }
}

/// The object behind a file handle of a replay thread. It has no file open.
final class ReplayedOpen {
  let node: NodeID
  /// Whether it counts among the opens that the kernel passes through.
  let isPassedThrough: Bool

  init(_ node: NodeID, isPassedThrough: Bool) {
    self.node = node
    self.isPassedThrough = isPassedThrough
  }
}
