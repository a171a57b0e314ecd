import BackingTree
import CFuse
import CLinux
import Glibc
import SystemPackage
import View

extension Operations {
  static func addNames(to table: inout fuse_lowlevel_ops) {
    table.lookup = { raw, parent, name in
      if let reference = HandleReference(name!) { return reference.serve(raw, parent) }
      Request.serve(raw, parent) { (request, parent) throws(Errno) in
        let entry = try request.view.lookupOrNegativeEntry(parent, name!, client: request.client)
        request.reply(entry, parent, name!)
      } replay: { (replayed, parent) throws(Errno) in
        replayed.reply(try replayed.responder.lookup(parent, name!), parent, name!)
      }
    }
    table.mknod = { raw, parent, name, mode, device in
      Request.serve(raw, parent) { (request, parent) throws(Errno) in
        let entry = try request.view.makeNode(
          parent, name!, mode: mode, device: device, client: request.client)
        request.reply(entry, parent, name!)
      } replay: { (replayed, parent) throws(Errno) in
        try replayed.make(parent, name!)
      }
    }
    table.mkdir = { raw, parent, name, mode in
      Request.serve(raw, parent) { (request, parent) throws(Errno) in
        let entry = try request.view.makeDirectory(parent, name!, mode: mode, client: request.client)
        request.reply(entry, parent, name!)
      } replay: { (replayed, parent) throws(Errno) in
        try replayed.make(parent, name!)
      }
    }
    table.symlink = { raw, target, parent, name in
      Request.serve(raw, parent) { (request, parent) throws(Errno) in
        let entry = try request.view.makeSymlink(parent, name!, to: target!, client: request.client)
        request.reply(entry, parent, name!)
      } replay: { (replayed, parent) throws(Errno) in
        try replayed.make(parent, name!)
      }
    }
    table.link = { raw, id, parent, name in
      Request.serve(raw, id, parent) { (request, id, parent) throws(Errno) in
        request.reply(
          try request.view.link(id, to: parent, name!, client: request.client), parent, name!)
      }
    }
    table.unlink = { raw, parent, name in
      Request.serve(raw, parent) { (request, parent) throws(Errno) in
        try request.view.unlink(parent, name!, client: request.client)
        request.succeed()
      } replay: { (replayed, parent) throws(Errno) in
        try replayed.remove(parent, name!)
      }
    }
    table.rmdir = { raw, parent, name in
      Request.serve(raw, parent) { (request, parent) throws(Errno) in
        try request.view.removeDirectory(parent, name!, client: request.client)
        request.succeed()
      } replay: { (replayed, parent) throws(Errno) in
        try replayed.remove(parent, name!)
      }
    }
    table.rename = { raw, parent, name, newParent, newName, flags in
      Request.serve(raw) { (request) throws(Errno) in
        let (parent, newParent) = (try request.node(parent), try request.node(newParent))
        try request.view.rename(
          parent, name!, to: newParent, newName!, flags: RenameFlags(rawValue: flags), client: request.client)
        request.succeed()
      } replay: { (replayed) throws(Errno) in
        try replayed.responder.rename(replayed.node(parent), name!)
        replayed.succeed()
      }
    }
    table.readlink = { raw, id in
      Request.serve(raw, id) { (request, id) throws(Errno) in
        var target = try request.view.symlinkTarget(id).map { CChar(bitPattern: $0) }
        target.append(0)
        fuse_reply_readlink(raw, target)
      }
    }
  }
}

/// The names by which the kernel looks up a node of an exported view that it has opened by a file handle. No client gets to
/// send them: the kernel walks them itself. (`fuse_get_dentry`, `fuse_get_parent`)
private enum HandleReference {
  /// `.`
  case node
  /// `..`
  case parent

  init?(_ name: UnsafePointer<CChar>) {
    guard name[0] == 0x2e else { return nil }
    if name[1] == 0 {
      self = .node
    } else if name[1] == 0x2e, name[2] == 0 {
      self = .parent
    } else {
      return nil
    }
  }

  func serve(_ raw: fuse_req_t?, _ nodeid: fuse_ino_t) {
    Request.serve(raw) { (request) throws(Errno) in
      switch self {
      case .node: request.reply(reopened: try request.view.reopen(nodeid))
      case .parent: request.reply(reopened: try request.view.parentEntry(of: request.node(nodeid)))
      }
    }
  }
}
