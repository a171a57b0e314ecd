import CFuse
import CLinux
import Glibc
import View

extension Operations {
  static func addLifetime(to table: inout fuse_lowlevel_ops) {
    table.`init` = { userdata, connection in
      let server = Unmanaged<Server>.fromOpaque(userdata!).takeUnretainedValue()
      server.negotiate(&connection!.pointee)
    }
    table.forget = { raw, id, count in
      Request.serveRelease(raw) { request in
        request.view.forget(nodeid: id, count: count)
        fuse_reply_none(raw)
      }
    }
    table.forget_multi = { raw, count, forgets in
      Request.serveRelease(raw) { request in
        for index in 0..<count {
          request.view.forget(nodeid: forgets![index].ino, count: forgets![index].nlookup)
        }
        fuse_reply_none(raw)
      }
    }
  }
}
