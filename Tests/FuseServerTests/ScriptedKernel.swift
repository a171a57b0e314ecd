import CFuse
import Glibc
import SystemPackage
import View

@testable import FuseServer

/// A session without a mount: requests are passed to libfuse in the form in which the kernel sends them, and the replies are
/// collected.
final class ScriptedKernel {
  let server: Server
  let session: OpaquePointer
  private let replies: CInt
  private var unique: UInt64 = 1

  struct Reply {
    /// The positive errno; 0 for success.
    let error: CInt
    let body: [UInt8]

    /// The first field of the replies to LOOKUP (nodeid), OPEN and OPENDIR (fh).
    var number: UInt64 { body.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) } }
  }

  init(_ view: View, locks: LockMode = .local) throws {
    let server = Server(view: view, passthrough: false, locks: locks, onReady: {})
    self.server = server
    var table = Operations.table(passesLocks: locks == .backing)
    var name = Array("test".utf8CString)
    session = try name.withUnsafeMutableBufferPointer { name in
      var arguments: [UnsafeMutablePointer<CChar>?] = [name.baseAddress, nil]
      let new = dfs_session_new(
        1, &arguments, &table, MemoryLayout<fuse_lowlevel_ops>.size,
        Unmanaged.passUnretained(server).toOpaque())
      guard let new else { throw Errno.ioError }
      return new
    }
    // Each reply is one message.
    var ends: [CInt] = [-1, -1]
    guard socketpair(AF_UNIX, CInt(SOCK_SEQPACKET.rawValue), 0, &ends) == 0 else {
      throw Errno(rawValue: errno)
    }
    replies = ends[0]
    var io = fuse_custom_io()
    io.read = { _, _, _, _ in 0 }
    io.writev = { file, pieces, count, _ in writev(file, pieces, count) }
    guard fuse_session_custom_io(session, &io, ends[1]) == 0 else { throw Errno.ioError }
    server.prepare(for: session, at: "/nowhere", replays: true)
    let major: [UInt32] = [7, 38, 65536, 0]
    guard send(26, bytes(major)).error == 0 else { throw Errno.ioError }
  }

  deinit {
    fuse_session_destroy(session)
    close(replies)
  }

  /// - Returns: the only reply. A message that has none gets success without a body.
  @discardableResult
  func send(_ opcode: UInt32, node: UInt64 = 1, by thread: pid_t = getpid(), _ body: [UInt8] = []) -> Reply {
    unique += 2
    var message =
      bytes([UInt32(40 + body.count), opcode]) + bytes([unique, node])
      + bytes([geteuid(), getegid(), UInt32(thread), 0]) + body
    message.withUnsafeMutableBytes { message in
      var buffer = fuse_buf()
      buffer.mem = message.baseAddress
      buffer.size = message.count
      fuse_session_process_buf(session, &buffer)
    }
    var found: [Reply] = []
    var reply = [UInt8](repeating: 0, count: 1 << 17)
    while case let count = recv(replies, &reply, reply.count, CInt(MSG_DONTWAIT)), count >= 16 {
      let (error, answered) = reply.withUnsafeBytes {
        (
          $0.loadUnaligned(fromByteOffset: 4, as: Int32.self),
          $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        )
      }
      // Notify messages have the number 0.
      if answered == unique { found.append(Reply(error: -error, body: Array(reply[16..<count]))) }
    }
    precondition(found.count <= 1, "a request got \(found.count) replies")
    return found.first ?? Reply(error: 0, body: [])
  }

  /// The next message that was sent while no request was in progress; nil when there is none in time.
  func message(milliseconds: CInt = 5000) -> [UInt8]? {
    var ready = pollfd(fd: replies, events: Int16(POLLIN), revents: 0)
    guard poll(&ready, 1, milliseconds) == 1 else { return nil }
    var message = [UInt8](repeating: 0, count: 1 << 17)
    let count = recv(replies, &message, message.count, 0)
    return count > 0 ? Array(message[..<count]) : nil
  }
}

/// Numbers in the byte order of this machine, as the protocol has them.
func bytes<Number: FixedWidthInteger>(_ numbers: [Number]) -> [UInt8] {
  numbers.withUnsafeBytes { Array($0) }
}

/// Names, each with a terminating NUL.
func names(_ names: String...) -> [UInt8] { names.flatMap { Array($0.utf8) + [0] } }
