import BackingTree
import CFuse
import CLinux
import Glibc
import SystemPackage
import View

extension Operations {
  static func addNames(to table: inout fuse_lowlevel_ops) {
    table.lookup = { raw, parent, name in
      let request = Request(raw: raw!)
      request.performEntry(parent, name!) { (view) throws(Errno) in
        try view.lookupOrAbsence(parent, name!, caller: request.caller)
      } replaying: { (answers) throws(Errno) in
        try answers.lookup(parent, name!)
      }
    }
    table.mknod = { raw, parent, name, mode, device in
      let request = Request(raw: raw!)
      request.performEntry(parent, name!) { (view) throws(Errno) in
        try view.makeNode(parent, name!, mode: mode, device: device, caller: request.caller)
      } replaying: { (answers) throws(Errno) in
        try answers.make(parent, name!)
      }
    }
    table.mkdir = { raw, parent, name, mode in
      let request = Request(raw: raw!)
      request.performEntry(parent, name!) { (view) throws(Errno) in
        try view.makeDirectory(parent, name!, mode: mode, caller: request.caller)
      } replaying: { (answers) throws(Errno) in
        try answers.make(parent, name!)
      }
    }
    table.symlink = { raw, target, parent, name in
      let request = Request(raw: raw!)
      request.performEntry(parent, name!) { (view) throws(Errno) in
        try view.makeSymlink(parent, name!, to: target!, caller: request.caller)
      } replaying: { (answers) throws(Errno) in
        try answers.make(parent, name!)
      }
    }
    table.link = { raw, id, parent, name in
      let request = Request(raw: raw!)
      request.performEntry(parent, name!) { (view) throws(Errno) in
        try view.link(id, to: parent, name!, caller: request.caller)
      }
    }
    table.unlink = { raw, parent, name in
      let request = Request(raw: raw!)
      request.perform { (view) throws(Errno) in
        try view.unlink(parent, name!, caller: request.caller)
      } replaying: { (answers) throws(Errno) in
        try answers.remove(parent, name!)
      }
    }
    table.rmdir = { raw, parent, name in
      let request = Request(raw: raw!)
      request.perform { (view) throws(Errno) in
        try view.removeDirectory(parent, name!, caller: request.caller)
      } replaying: { (answers) throws(Errno) in
        try answers.remove(parent, name!)
      }
    }
    table.rename = { raw, parent, name, newParent, newName, flags in
      let request = Request(raw: raw!)
      request.perform { (view) throws(Errno) in
        try view.rename(
          parent, name!, to: newParent, newName!, flags: RenameFlags(rawValue: flags), caller: request.caller)
      } replaying: { (answers) throws(Errno) in
        try answers.rename(parent, name!)
      }
    }
    table.readlink = { raw, id in
      let request = Request(raw: raw!)
      do throws(Errno) {
        var target = try request.view.symlinkTarget(id).map { CChar(bitPattern: $0) }
        target.append(0)
        fuse_reply_readlink(raw, target)
      } catch { request.fail(error) }
    }
  }
}
