import CFuse
import Glibc
import View

extension Operations {
  static func addLifetime(to table: inout fuse_lowlevel_ops) {
    table.`init` = { userdata, connection in
      let server = Unmanaged<Server>.fromOpaque(userdata!).takeUnretainedValue()
      server.negotiate(&connection!.pointee)
    }
    table.forget = { raw, id, count in
      Request(raw: raw!).view.forget(id, count: count)
      fuse_reply_none(raw)
    }
    table.forget_multi = { raw, count, forgets in
      let view = Request(raw: raw!).view
      for index in 0..<count { view.forget(forgets![index].ino, count: forgets![index].nlookup) }
      fuse_reply_none(raw)
    }
  }
}
