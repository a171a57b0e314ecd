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
        if let holds = directory.keptListingHolds {
          info!.pointee.cache_readdir = 1
          info!.pointee.keep_cache = holds ? 1 : 0
        }
        if fuse_reply_open(raw, info) == -ENOENT { Handle.disown(info) }
      } catch { request.fail(error) }
    }
    table.releasedir = { raw, _, info in
      Handle.disown(info)
      Request(raw: raw!).succeed()
    }
    table.readdir = { raw, _, size, offset, info in
      let request = Request(raw: raw!)
      guard let directory = Handle.object(info, as: OpenDirectory.self) else {
        return request.fail(.badFileDescriptor)
      }
      let buffer = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 8)
      defer { buffer.deallocate() }
      var used = 0
      do throws(Errno) {
        try request.view.list(directory, from: Int64(offset), size: size) { entry in
          let need = dfs_add_entry(
            buffer + used, size - used, UInt64(entry.inode), UInt32(entry.type) >> 12, entry.next,
            entry.name.baseAddress!, UInt32(entry.name.count))
          used += need
          return need > 0
        }
        fuse_reply_buf(raw, buffer.assumingMemoryBound(to: CChar.self), used)
      } catch { request.fail(error) }
    }
    table.fsyncdir = { raw, id, _, _ in
      Request(raw: raw!).perform { (view) throws(Errno) in try view.synchronizeDirectory(id) }
    }
  }
}
