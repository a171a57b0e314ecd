import CFuse
import CLinux
import Glibc
import SystemPackage
import View

extension Operations {
  static func addAttributes(to table: inout fuse_lowlevel_ops) {
    table.getattr = { raw, id, _ in
      Request.serveRead(raw, id) { (request, id) throws(Errno) in try request.replyAttributes(of: id) }
    }
    table.setattr = { raw, id, attributes, which, info in
      Request.serve(raw, id) { (request, id) throws(Errno) in
        let change = AttributeChange(attributes!.pointee, which: which)
        try request.view.setAttributes(
          id, change, open: Handle.file(info), client: request.client,
          isInterrupted: { request.isInterrupted })
        // For every other request, the kernel recognizes a reply that is older than a later invalidation. It does not for
        // SETATTR, so the kernel may not cache these attributes.
        var result = try request.view.attributes(id)
        fuse_reply_attr(raw, &result, 0)
      } replay: { (replayed, id) throws(Errno) in
        replayed.reply(try replayed.responder.attributes(id))
      }
    }
    table.statfs = { raw, id in
      Request.serve(raw) { (request) throws(Errno) in
        var status = try request.view.fileSystemStatus(id == 0 ? NodeTable.root : request.node(id))
        fuse_reply_statfs(raw, &status)
      }
    }
  }
}

extension AttributeChange {
  /// Converts the kernel's SETATTR and its FUSE_SET_ATTR_* bits.
  init(_ attributes: stat, which: CInt) {
    self.init()
    if which & FUSE_SET_ATTR_MODE != 0 { mode = attributes.st_mode }
    if which & FUSE_SET_ATTR_UID != 0 { user = attributes.st_uid }
    if which & FUSE_SET_ATTR_GID != 0 { group = attributes.st_gid }
    if which & FUSE_SET_ATTR_SIZE != 0 { size = Int64(attributes.st_size) }
    if which & FUSE_SET_ATTR_ATIME_NOW != 0 {
      accessed = .now
    } else if which & FUSE_SET_ATTR_ATIME != 0 {
      accessed = .at(attributes.st_atim)
    }
    if which & FUSE_SET_ATTR_MTIME_NOW != 0 {
      modified = .now
    } else if which & FUSE_SET_ATTR_MTIME != 0 {
      modified = .at(attributes.st_mtim)
    }
  }
}
