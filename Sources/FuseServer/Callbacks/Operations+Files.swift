import BackingTree
import CFuse
import CLinux
import Glibc
import SystemPackage
import View

extension Operations {
  static func addFiles(to table: inout fuse_lowlevel_ops) {
    table.open = { raw, id, info in
      Request.serve(raw, id) { (request, id) throws(Errno) in
        var backing: CInt = 0
        let client = request.client
        let descriptors = request.view.isPackageFile(id) ? OpenPackage.maximumDescriptors : 1
        try request.reservingDescriptors(descriptors) { () throws(Errno) in
          switch try request.view.open(
            node: id, flags: info!.pointee.flags, client: client, isInterrupted: { request.isInterrupted })
          {
          case .file(let file):
            info!.pointee.fh = Handle.make(file, of: client, descriptors: descriptors)
            info!.pointee.noflush = request.server.needsFlush(file) ? 0 : 1
            backing = request.server.passthrough.opened(file, info!, for: request)
            if backing == 0, request.server.pageCachePolicy.opened(file) { info!.pointee.keep_cache = 1 }
          case .package(let package):
            info!.pointee.fh = Handle.make(package, of: client, descriptors: descriptors)
            // The data belongs to this open alone: the package may have changed by the next open.
            info!.pointee.direct_io = 1
            info!.pointee.noflush = request.server.needsFlush(nil) ? 0 : 1
          }
        }
        if dfs_reply_open(raw, info, backing) == -ENOENT {
          // The client has not invalidated the page cache.
          request.server.pageCachePolicy.remove(id)
          Handle.close(info, for: request)
        }
      } replay: { replayed, id in
        replayed.open(id, info!)
      }
    }
    table.create = { raw, parent, name, mode, info in
      Request.serve(raw, parent) { (request, parent) throws(Errno) in
        let view = request.view
        let flags = info!.pointee.flags
        let client = request.client
        try request.reservingDescriptors { () throws(Errno) in
          var created =
            flags & dfs_O_TMPFILE == dfs_O_TMPFILE
            ? try view.makeTemporaryFile(parent, mode: mode, flags: flags, client: client)
            : try view.create(
              parent, name!, mode: mode, flags: flags, client: client,
              isInterrupted: { request.isInterrupted })
          info!.pointee.fh = Handle.make(created.file, of: client)
          info!.pointee.noflush = request.server.needsFlush(created.file) ? 0 : 1
          let backing = request.server.passthrough.opened(created.file, info!, for: request)
          created.entry.dropStaleVersions()
          if !request.reply(created.entry, created: &info!.pointee, backing: backing) {
            view.forget(created.entry.id, count: 1)
            Handle.close(info, for: request)
          }
          view.revalidateAfterReply(created.entry, parent, name!)
        }
      }
    }
    table.release = { raw, _, info in
      Request.serveRelease(raw) { request in
        Handle.close(info, for: request)
        request.succeed()
      }
    }
    table.read = { raw, _, size, offset, info in
      Request.serve(raw) { (_) throws(Errno) in
        if let file = Handle.file(info) {
          var data = fuse_bufvec()
          data.count = 1
          data.buf.size = size
          data.buf.flags = fuse_buf_flags(FUSE_BUF_IS_FD.rawValue | FUSE_BUF_FD_SEEK.rawValue)
          data.buf.fd = file.descriptor.rawValue
          data.buf.pos = offset
          fuse_reply_data(raw, &data, fuse_buf_copy_flags(0))
        } else if let package = Handle.object(info, as: OpenPackage.self) {
          let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 4096)
          defer { buffer.deallocate() }
          let count = try package.read(into: buffer, at: Int64(offset))
          fuse_reply_buf(raw, buffer.baseAddress!.assumingMemoryBound(to: CChar.self), count)
        } else {
          throw .badFileDescriptor
        }
      }
    }
    table.write_buf = { raw, _, input, offset, info in
      Request.serve(raw) { (request) throws(Errno) in
        guard let file = Handle.file(info) else { throw .badFileDescriptor }
        var data = fuse_bufvec()
        data.count = 1
        data.buf.size = fuse_buf_size(input)
        data.buf.flags = fuse_buf_flags(FUSE_BUF_IS_FD.rawValue | FUSE_BUF_FD_SEEK.rawValue)
        data.buf.fd = file.descriptor.rawValue
        data.buf.pos = offset
        let isPage = info!.pointee.writepage != 0
        let appends = !isPage && info!.pointee.flags & O_APPEND != 0
        // Set-user-ID bits, and blocks that are reserved for root, depend on the identity that writes.
        let writer = request.view.writer(of: file, isPage: isPage, client: request.client)
        let count = try writer.impersonate { () throws(Errno) in
          if appends, let bytes = input!.pointee.buf.mem {
            return try systemCall { dfs_append(data.buf.fd, bytes, data.buf.size) }
          }
          var written = 0
          repeat {
            let count = fuse_buf_copy(&data, input, fuse_buf_copy_flags(0))
            if count < 0 { throw Errno(rawValue: CInt(-count)) }
            if isPage, count == 0 { throw .ioError }
            written += count
            // The kernel takes all pages for written unless the reply is an error. (`fuse_writepage_end`)
          } while isPage && written < data.buf.size
          return written
        }
        fuse_reply_write(raw, count)
      }
    }
    table.flush = { raw, _, info in
      Request.serve(raw) { (request) throws(Errno) in
        if let locks = request.server.locks, let open = Handle.locked(info) {
          locks.removeAll(of: info!.pointee.lock_owner, on: open.node)
        }
        guard let file = Handle.file(info), file.needsFlush else { return request.succeed() }
        request.view.closing(file, client: request.client)
        // Closing a duplicate makes a backing file system that delays errors (NFS, quotas) report them now.
        let copy = dup(file.descriptor.rawValue)
        if copy >= 0, Glibc.close(copy) != 0 { throw Errno(rawValue: errno) }
        request.succeed()
      } replay: { replayed in
        replayed.succeed()
      }
    }
    table.fsync = { raw, _, dataOnly, info in
      Request.serve(raw) { (request) throws(Errno) in
        if let file = Handle.file(info) {
          let fd = file.descriptor.rawValue
          try systemCall { dataOnly != 0 ? fdatasync(fd) : Glibc.fsync(fd) }
        }
        request.succeed()
      }
    }
    table.fallocate = { raw, _, mode, offset, length, info in
      Request.serve(raw) { (request) throws(Errno) in
        guard let file = Handle.file(info) else { throw .badFileDescriptor }
        try request.view.allocate(file, mode: mode, offset: offset, length: length, client: request.client)
        request.succeed()
      }
    }
    table.lseek = { raw, _, offset, whence, info in
      Request.serve(raw) { (_) throws(Errno) in
        if let file = Handle.file(info) {
          fuse_reply_lseek(raw, try systemCall { lseek(file.descriptor.rawValue, offset, whence) })
        } else if let package = Handle.object(info, as: OpenPackage.self) {
          // A package stream has no holes: it is data until its end.
          guard offset >= 0, offset < package.size else { throw Errno(rawValue: ENXIO) }
          fuse_reply_lseek(raw, whence == dfs_SEEK_HOLE ? off_t(package.size) : offset)
        } else {
          throw .badFileDescriptor
        }
      }
    }
    table.copy_file_range = { raw, _, offsetIn, infoIn, _, offsetOut, infoOut, length, flags in
      Request.serve(raw) { (request) throws(Errno) in
        // EXDEV makes the caller fall back to reading and writing, which works for a package.
        guard let source = Handle.file(infoIn), let target = Handle.file(infoOut) else { throw .improperLink }
        let count = try request.client.impersonate { () throws(Errno) in
          try systemCall {
            dfs_copy_file_range(
              source.descriptor.rawValue, offsetIn, target.descriptor.rawValue, offsetOut,
              // The reply has 32 bits for the number of bytes.
              min(length, 1 << 30), UInt32(flags))
          }
        }
        fuse_reply_write(raw, count)
      }
    }
  }
}
