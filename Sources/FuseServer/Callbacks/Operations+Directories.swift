import BackingTree
import CFuse
import CLinux
import Glibc
import SystemPackage
import View

extension Operations {
  static func addDirectories(to table: inout fuse_lowlevel_ops) {
    table.opendir = { raw, id, info in
      Request.serve(raw, id) { (request, id) throws(Errno) in
        let client = request.client
        func open(isForListing: Bool) throws(Errno) {
          try request.reservingDescriptors(in: isForListing ? .forListing : .opened) { () throws(Errno) in
            if !isForListing { try request.view.ensureDescriptorsLeft() }
            let directory = try request.view.openDirectory(id, flags: info!.pointee.flags, client: client)
            info!.pointee.fh = Handle.make(directory, of: client, isForListing: isForListing)
            if let isValid = directory.isCachedListingValid {
              info!.pointee.cache_readdir = 1
              info!.pointee.keep_cache = isValid ? 1 : 0
            }
          }
        }
        do throws(Errno) { try open(isForListing: false) } catch {
          guard error == .tooManyOpenFilesInSystem else { throw error }
          try open(isForListing: true)
        }
        if fuse_reply_open(raw, info) == -ENOENT { Handle.release(info) }
      }
    }
    table.releasedir = { raw, _, info in
      Request.serveRelease(raw) { request in
        Handle.release(info)
        request.succeed()
      }
    }
    table.readdir = { raw, _, size, offset, info in
      Request.serve(raw) { (request) throws(Errno) in
        guard let directory = Handle.object(info, as: OpenDirectory.self) else { throw .badFileDescriptor }
        let buffer = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 8)
        defer { buffer.deallocate() }
        var used = 0
        try request.view.list(directory, from: Int64(offset), size: size) { entry in
          let written = dfs_add_entry(
            buffer + used, size - used, UInt64(entry.inode), UInt32(entry.type) >> 12, entry.next,
            entry.name.baseAddress!, UInt32(entry.name.count))
          used += written
          return written > 0
        }
        fuse_reply_buf(raw, buffer.assumingMemoryBound(to: CChar.self), used)
      }
    }
    table.readdirplus = { raw, _, size, offset, info in
      Request.serve(raw) { (request) throws(Errno) in
        guard let directory = Handle.object(info, as: OpenDirectory.self) else { throw .badFileDescriptor }
        let view = request.view
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
        defer { buffer.deallocate() }
        var used = 0
        var added: [AddedEntry] = []
        func forgetAdded() { for entry in added { view.forget(entry.node, count: 1) } }
        let versioned = view.versionOfEntries(in: directory, from: Int64(offset), client: request.client)
        do throws(Errno) {
          // An entry takes several times the space that it takes in the backing directory.
          try view.list(directory, from: Int64(offset), size: size / 4) { listed in
            let length = UInt32(listed.name.count)
            // With a longer name, the kernel refuses the whole listing.
            if length > DFS_NAME_MAX { return true }
            guard used + dfs_plus_size(length) <= size else { return false }
            var parameters = fuse_entry_param()
            if let versioned, var entry = view.entry(of: listed, in: directory, versioned) {
              entry.dropStaleVersions()
              parameters = request.parameters(entry)
              added.append(AddedEntry(entry, name: used + dfs_plus_name_offset, length: length))
            } else {
              parameters.attr.st_ino = ino_t(listed.inode)
              parameters.attr.st_mode = listed.type
            }
            used += dfs_add_entry_plus(
              raw, buffer.baseAddress! + used, &parameters, listed.next, listed.name.baseAddress!, length)
            return true
          }
        } catch {
          forgetAdded()
          throw error
        }
        let bytes = buffer.baseAddress!.assumingMemoryBound(to: CChar.self)
        if fuse_reply_buf(raw, bytes, used) == -ENOENT { forgetAdded() }
        if let versioned {
          view.revalidateAfterReply(added, of: directory.node, versioned.version) {
            UnsafeRawBufferPointer(rebasing: buffer[$0])
          }
        }
      }
    }
    table.fsyncdir = { raw, id, _, _ in
      Request.serve(raw, id) { (request, id) throws(Errno) in
        try request.view.synchronizeDirectory(id)
        request.succeed()
      }
    }
  }
}
