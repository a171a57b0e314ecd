import CFuse
import CLinux
import Glibc
import SystemPackage
import View

extension Operations {
  static func addExtendedAttributes(to table: inout fuse_lowlevel_ops) {
    table.getxattr = { raw, id, name, size in
      let request = Request(raw: raw!)
      request.replyValue(size) { (view, buffer) throws(Errno) in
        if id == NodeTable.root, strcmp(name!, Statistics.attribute) == 0 {
          return try Statistics.report(of: request.server).copied(into: buffer)
        }
        if id == NodeTable.root, let setting = LiveOptions.setting(name!) {
          // A client that queries the length first sets the option when it reads the value.
          if size == 0 { return 4096 }
          return try Array(request.server.set(setting, for: request.caller).utf8).copied(into: buffer)
        }
        return try view.getAttribute(id, name!, into: buffer, caller: request.caller)
      }
    }
    table.listxattr = { raw, id, size in
      let request = Request(raw: raw!)
      request.replyValue(size) { (view, buffer) throws(Errno) in
        try view.listAttributes(id, into: buffer, caller: request.caller)
      }
    }
    table.setxattr = { raw, id, name, value, size, flags in
      let request = Request(raw: raw!)
      request.perform { (view) throws(Errno) in
        try view.setAttribute(
          id, name!, UnsafeRawBufferPointer(start: value, count: size), flags: flags, caller: request.caller)
      }
    }
    table.removexattr = { raw, id, name in
      let request = Request(raw: raw!)
      request.perform { (view) throws(Errno) in
        try view.removeAttribute(id, name!, caller: request.caller)
      }
    }
  }
}

extension Request {
  /// Replies with a value, or with its length if the client requests only that (size 0).
  func replyValue(
    _ size: Int, _ body: (View, UnsafeMutableRawBufferPointer) throws(Errno) -> Int
  ) {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
    defer { buffer.deallocate() }
    do throws(Errno) {
      let count = try body(view, buffer)
      if size == 0 {
        fuse_reply_xattr(raw, count)
      } else {
        fuse_reply_buf(raw, buffer.baseAddress!.assumingMemoryBound(to: CChar.self), count)
      }
    } catch { fail(error) }
  }
}
