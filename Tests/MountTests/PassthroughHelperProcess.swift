import Glibc
import SystemPackage
import Testing

/// A FUSE connection without a server, except for the INIT reply that enables passthrough.
final class BareConnection {
  let device: CInt
  private let directory: TemporaryDirectory

  struct Failure: Error { let step: String, number = errno }

  /// - Parameter user: the owner of the mount.
  init(of user: uid_t) throws {
    directory = try TemporaryDirectory()
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC)
    let options = "fd=\(device),rootmode=40000,user_id=\(user),group_id=0"
    guard Glibc.mount("displayfs-test", directory.root, "fuse", 0, options) == 0 else {
      throw Failure(step: "mount")
    }
    try greet()
  }

  deinit {
    unmount()
    close(device)
  }

  /// Ends the connection.
  func unmount() { umount2(directory.root, CInt(MNT_DETACH)) }

  /// Replies to INIT. (`struct fuse_init_out` of linux/fuse.h)
  private func greet() throws {
    var request = [UInt8](repeating: 0, count: 1 << 20)
    guard read(device, &request, request.count) >= 104 else { throw Failure(step: "INIT") }
    var reply = [UInt8](repeating: 0, count: 80)
    func set(_ value: UInt64, at offset: Int, bytes: Int) {
      for index in 0..<bytes {
        reply[offset + index] = UInt8(truncatingIfNeeded: value >> (8 * UInt64(index)))
      }
    }
    set(80, at: 0, bytes: 4)
    for index in 8..<16 { reply[index] = request[index] }
    set(7, at: 16, bytes: 4)
    set(40, at: 20, bytes: 4)
    // FUSE_INIT_EXT, and FUSE_PASSTHROUGH in the second half of the flags.
    set(1 << 30, at: 28, bytes: 4)
    set(1 << 20, at: 36, bytes: 4)
    set(1 << 5, at: 48, bytes: 4)
    set(2, at: 52, bytes: 4)
    guard write(device, reply, reply.count) == reply.count else { throw Failure(step: "the reply to INIT") }
  }
}

/// `displayfs-passthrough`, run by an ordinary user, with a test as its daemon.
final class PassthroughHelperProcess {
  private let socket: CInt
  let process: StartedProgram

  init(of user: String = OrdinaryUser.owner) throws {
    var ends: [CInt] = [0, 0]
    try #require(socketpair(AF_UNIX, CInt(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
    socket = ends[0]
    var limit = timeval(tv_sec: 30, tv_usec: 0)
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO)
    let words = ["setpriv", "--reuid=\(user)", "--regid=\(user)", "--clear-groups", InstalledProgram.helper]
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    defer { for argument in arguments { free(argument) } }
    var child: pid_t = 0
    let error = posix_spawnp(&child, "setpriv", &actions, nil, &arguments, environ)
    close(ends[1])
    try #require(error == 0)
    process = StartedProgram(id: child)
  }

  deinit {
    disconnect()
    _ = end()
    close(socket)
  }

  /// The daemon's end of the connection ends.
  func disconnect() { shutdown(socket, CInt(SHUT_RDWR)) }

  /// Waits until it has ended. - Returns: the exit status, or 128 and the number of the signal that ended it: SIGKILL when
  /// it did not end by itself.
  func end() -> CInt {
    if !eventually(within: .work, { process.hasEnded }) { process.send(SIGKILL) }
    return process.wait()
  }

  /// Sends one packet. - Returns: false when the helper has ended.
  @discardableResult
  func send(_ bytes: [UInt8], _ descriptors: [CInt] = []) -> Bool {
    var bytes = bytes
    let header = MemoryLayout<cmsghdr>.size
    let length = header + 4 * descriptors.count
    let control = UnsafeMutableRawPointer.allocate(byteCount: length + 8, alignment: 8)
    defer { control.deallocate() }
    // `struct cmsghdr`: length, level, type.
    control.storeBytes(of: length, as: Int.self)
    control.storeBytes(of: SOL_SOCKET, toByteOffset: 8, as: CInt.self)
    control.storeBytes(of: 1 /* SCM_RIGHTS */, toByteOffset: 12, as: CInt.self)
    for (index, descriptor) in descriptors.enumerated() {
      control.storeBytes(of: descriptor, toByteOffset: header + 4 * index, as: CInt.self)
    }
    let count = bytes.count
    return bytes.withUnsafeMutableBytes { bytes in
      var piece = iovec(iov_base: bytes.baseAddress, iov_len: count)
      return withUnsafeMutablePointer(to: &piece) { piece in
        var packet = msghdr()
        packet.msg_iov = piece
        packet.msg_iovlen = 1
        if !descriptors.isEmpty {
          packet.msg_control = control
          packet.msg_controllen = (length + 7) & ~7
        }
        return sendmsg(socket, &packet, CInt(MSG_NOSIGNAL)) == count
      }
    }
  }

  /// The helper's next reply; nil when the helper has ended.
  func answer() -> Int32? {
    var answer: Int32 = 0
    return recv(socket, &answer, 4, 0) == 4 ? answer : nil
  }

  /// Sends a descriptor and waits for the reply: nil when the helper has ended.
  func register(_ descriptor: CInt) -> Int32? {
    send([0, 0, 0, 0], [descriptor]) ? answer() : nil
  }

  func unregister(_ id: Int32) {
    send((0..<4).map { UInt8(truncatingIfNeeded: id >> (8 * $0)) })
  }
}
