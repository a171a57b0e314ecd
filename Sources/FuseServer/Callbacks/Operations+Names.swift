import BackingTree
import CFuse
import CLinux
import Glibc
import SystemPackage
import View

extension Operations {
  static func addNames(to table: inout fuse_lowlevel_ops) {
    table.lookup = { raw, parent, name in
      Request.serve(raw) { (request) throws(Errno) in
        let entry = try request.view.lookupOrNegativeEntry(parent, name!, client: request.client)
        request.reply(entry, parent, name!)
      } replay: { (replayed) throws(Errno) in
        replayed.reply(try replayed.responder.lookup(parent, name!), parent, name!)
      }
    }
    table.mknod = { raw, parent, name, mode, device in
      Request.serve(raw) { (request) throws(Errno) in
        let entry = try request.view.makeNode(
          parent, name!, mode: mode, device: device, client: request.client)
        request.reply(entry, parent, name!)
      } replay: { (replayed) throws(Errno) in
        try replayed.make(parent, name!)
      }
    }
    table.mkdir = { raw, parent, name, mode in
      Request.serve(raw) { (request) throws(Errno) in
        let entry = try request.view.makeDirectory(parent, name!, mode: mode, client: request.client)
        request.reply(entry, parent, name!)
      } replay: { (replayed) throws(Errno) in
        try replayed.make(parent, name!)
      }
    }
    table.symlink = { raw, target, parent, name in
      Request.serve(raw) { (request) throws(Errno) in
        let entry = try request.view.makeSymlink(parent, name!, to: target!, client: request.client)
        request.reply(entry, parent, name!)
      } replay: { (replayed) throws(Errno) in
        try replayed.make(parent, name!)
      }
    }
    table.link = { raw, id, parent, name in
      Request.serve(raw) { (request) throws(Errno) in
        request.reply(
          try request.view.link(id, to: parent, name!, client: request.client), parent, name!)
      }
    }
    table.unlink = { raw, parent, name in
      Request.serve(raw) { (request) throws(Errno) in
        try request.view.unlink(parent, name!, client: request.client)
        request.succeed()
      } replay: { (replayed) throws(Errno) in
        try replayed.remove(parent, name!)
      }
    }
    table.rmdir = { raw, parent, name in
      Request.serve(raw) { (request) throws(Errno) in
        try request.view.removeDirectory(parent, name!, client: request.client)
        request.succeed()
      } replay: { (replayed) throws(Errno) in
        try replayed.remove(parent, name!)
      }
    }
    table.rename = { raw, parent, name, newParent, newName, flags in
      Request.serve(raw) { (request) throws(Errno) in
        try request.view.rename(
          parent, name!, to: newParent, newName!, flags: RenameFlags(rawValue: flags), client: request.client)
        request.succeed()
      } replay: { (replayed) throws(Errno) in
        try replayed.responder.rename(parent, name!)
        replayed.succeed()
      }
    }
    table.readlink = { raw, id in
      Request.serve(raw) { (request) throws(Errno) in
        var target = try request.view.symlinkTarget(id).map { CChar(bitPattern: $0) }
        target.append(0)
        fuse_reply_readlink(raw, target)
      }
    }
  }
}
