import CFuse
import CLinux
import Glibc
import SystemPackage
import View

extension Operations {
  static func addExtendedAttributes(to table: inout fuse_lowlevel_ops) {
    table.getxattr = { raw, id, name, size in
      Request.serve(raw, id) { (request, id) throws(Errno) in
        try request.replyValue(size) { (buffer) throws(Errno) in
          if id == NodeTable.root, strcmp(name!, Statistics.attribute) == 0 {
            return try Statistics.report(of: request.server).copied(into: buffer)
          }
          if id == NodeTable.root, strcmp(name!, Statistics.unrestrictedAttribute) == 0 { return 0 }
          if id == NodeTable.root, let setting = LiveOptions.setting(name!) {
            // A client that queries the length first sets the option when it reads the value.
            if size == 0 { return 4096 }
            return try Array(request.server.set(setting, for: request.client).utf8).copied(into: buffer)
          }
          return try request.view.getAttribute(id, name!, into: buffer, client: request.client)
        }
      } replay: { (replayed, id) throws(Errno) in
        try replayed.replyValue(size) { (buffer) throws(Errno) in
          try replayed.responder.attribute(id, name!, into: buffer)
        }
      }
    }
    table.listxattr = { raw, id, size in
      Request.serve(raw, id) { (request, id) throws(Errno) in
        try request.replyValue(size) { (buffer) throws(Errno) in
          try request.view.listAttributes(id, into: buffer, client: request.client)
        }
      }
    }
    table.setxattr = { raw, id, name, value, size, flags in
      Request.serve(raw, id) { (request, id) throws(Errno) in
        try request.view.setAttribute(
          id, name!, UnsafeRawBufferPointer(start: value, count: size), flags: flags, client: request.client)
        request.succeed()
      }
    }
    table.removexattr = { raw, id, name in
      Request.serve(raw, id) { (request, id) throws(Errno) in
        try request.view.removeAttribute(id, name!, client: request.client)
        request.succeed()
      }
    }
  }
}
