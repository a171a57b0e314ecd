import BackingTree
import CFuse
import Glibc
import SystemPackage
import View

extension Operations {
  static func addDirectories(to table: inout fuse_lowlevel_ops) {
    table.opendir = { raw, id, info in
      let request = Request(raw: raw!)
      do throws(Errno) {
        let directory = try request.view.openDirectory(id, caller: request.caller)
        info!.pointee.fh = Handle.own(directory)
        if fuse_reply_open(raw, info) == -ENOENT { Handle.disown(info) }
      } catch { request.fail(error) }
    }
    table.releasedir = { raw, _, info in
      Handle.disown(info)
      Request(raw: raw!).succeed()
    }
    table.readdir = { raw, _, size, offset, info in
      let request = Request(raw: raw!)
      guard let directory = Handle.object(info) as? OpenDirectory else {
        return request.fail(.badFileDescriptor)
      }
      let buffer = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 8)
      defer { buffer.deallocate() }
      var used = 0
      do throws(Errno) {
        try request.view.list(directory, from: Int64(offset)) { entry in
          var attributes = stat()
          attributes.st_ino = entry.inode
          attributes.st_mode = entry.type
          return withUnsafeTemporaryAllocation(of: CChar.self, capacity: entry.name.count + 1) { name in
            for index in entry.name.indices { name[index] = CChar(bitPattern: entry.name[index]) }
            name[entry.name.count] = 0
            let need = fuse_add_direntry(
              raw, (buffer + used).assumingMemoryBound(to: CChar.self), size - used, name.baseAddress!,
              &attributes,
              off_t(entry.next))
            guard used + need <= size else { return false }
            used += need
            return true
          }
        }
        fuse_reply_buf(raw, buffer.assumingMemoryBound(to: CChar.self), used)
      } catch { request.fail(error) }
    }
    table.fsyncdir = { raw, id, _, _ in
      Request(raw: raw!).perform { (view) throws(Errno) in try view.synchronizeDirectory(id) }
    }
  }
}
