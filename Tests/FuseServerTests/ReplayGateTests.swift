import BackingTree
import CFuse
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import FuseServer
@testable import View

/// A replay thread repeats through the mount what is done already. Whatever it requests must change nothing.
@Suite struct ReplayGateTests {
  private static let replayThread: pid_t = 1_000_000_007

  /// A request for each operation of the table, made as a client and as a replay thread would make it.
  struct Operation: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let offset: Int?
    let opcode: UInt32
    /// Whether the request of a client changes the tree.
    var changes = false
    /// Whether a replay thread gets a reply other than EIO.
    var isReplayed = false
    let request: @Sendable (Session) -> (node: UInt64, body: [UInt8])

    init(
      _ name: String, _ callback: PartialKeyPath<fuse_lowlevel_ops>, _ opcode: UInt32, changes: Bool = false,
      isReplayed: Bool = false, _ request: @escaping @Sendable (Session) -> (node: UInt64, body: [UInt8])
    ) {
      testDescription = name
      offset = MemoryLayout<fuse_lowlevel_ops>.offset(of: callback)
      self.opcode = opcode
      self.changes = changes
      self.isReplayed = isReplayed
      self.request = request
    }
  }

  /// A tree that a client has looked up and opened.
  final class Session {
    let tree: ViewedTree
    let kernel: ScriptedKernel
    let file, link: UInt64
    let handle, directoryHandle: UInt64

    init() throws {
      tree = try ViewedTree("other.txt")
      let file = open(tree.path("file.txt"), O_WRONLY | O_CREAT, 0o644)
      try #require(write(file, "content", 7) == 7 && close(file) == 0)
      try #require(symlink("file.txt", tree.path("link")) == 0 && mkdir(tree.path("empty"), 0o755) == 0)
      kernel = try ScriptedKernel(tree.view, locks: .backing)
      self.file = kernel.send(1, names("file.txt")).number
      link = kernel.send(1, names("link")).number
      handle = kernel.send(14, node: self.file, bytes([UInt32(O_RDWR), 0])).number
      directoryHandle = kernel.send(27, bytes([UInt32(O_RDONLY), 0])).number
    }

    deinit { rmdir(tree.path("empty")) }

    /// Everything that a request may change of the tree, except access times.
    func state() throws -> [String: [Int]] {
      let source = Descriptor(adopting: open(tree.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
      var state: [String: [Int]] = [:]
      try forEachEntry(of: source.rawValue) { entry in
        let name = String(decoding: entry.name, as: UTF8.self)
        var status = stat()
        lstat(tree.path(name), &status)
        state[name] = [
          Int(status.st_mode), Int(status.st_nlink), Int(status.st_size), status.st_mtim.tv_sec,
          status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec,
        ]
      }
      return state
    }
  }

  /// A lock for writing on the whole file. (`fuse_lk_in`)
  private static func lock(_ handle: UInt64, flags: UInt32 = 0) -> [UInt8] {
    bytes([handle, 1, 0, UInt64(Int64.max)]) + bytes([UInt32(F_WRLCK), 0, flags, 0])
  }

  static let operations: [Operation] = [
    Operation("lookup", \.lookup, 1, isReplayed: true) { _ in (1, names("file.txt")) },
    Operation("getattr", \.getattr, 3, isReplayed: true) { ($0.file, bytes([UInt64(0), 0])) },
    Operation("setattr", \.setattr, 4, changes: true, isReplayed: true) {
      // FATTR_MODE and FATTR_SIZE
      (
        $0.file,
        bytes([UInt64(1 | 8), $0.handle, 0, 0, 0, 0, 0]) + bytes([UInt32(0), 0, 0, 0o100600, 0, 0, 0, 0])
      )
    },
    Operation("readlink", \.readlink, 5) { ($0.link, []) },
    Operation("symlink", \.symlink, 6, changes: true) { _ in (1, names("new", "file.txt")) },
    Operation("mknod", \.mknod, 8, changes: true) { _ in
      (1, bytes([UInt32(0o100644), 0, 0, 0]) + names("new"))
    },
    Operation("mkdir", \.mkdir, 9, changes: true) { _ in (1, bytes([UInt32(0o755), 0]) + names("new")) },
    Operation("unlink", \.unlink, 10, changes: true) { _ in (1, names("other.txt")) },
    Operation("rmdir", \.rmdir, 11, changes: true) { _ in (1, names("empty")) },
    Operation("rename", \.rename, 12, changes: true) { _ in
      (1, bytes([UInt64(1)]) + names("other.txt", "new"))
    },
    Operation("rename2", \.rename, 45, changes: true) { _ in
      // RENAME_EXCHANGE
      (1, bytes([UInt64(1), 2]) + names("other.txt", "file.txt"))
    },
    Operation("link", \.link, 13, changes: true) { (1, bytes([$0.file]) + names("new")) },
    Operation("open", \.open, 14, changes: true, isReplayed: true) {
      ($0.file, bytes([UInt32(O_WRONLY | O_TRUNC), 0]))
    },
    Operation("read", \.read, 15) { ($0.file, bytes([$0.handle, 0, 4096, 0, 0])) },
    Operation("write", \.write_buf, 16, changes: true) {
      ($0.file, bytes([$0.handle, 0, 4, 0, 0]) + Array("CONT".utf8))
    },
    Operation("statfs", \.statfs, 17) { _ in (1, []) },
    Operation("fsync", \.fsync, 20) { ($0.file, bytes([$0.handle, 0])) },
    Operation("setxattr", \.setxattr, 21) { ($0.file, bytes([UInt32(1), 0]) + names("user.test", "")) },
    Operation("getxattr", \.getxattr, 22, isReplayed: true) {
      ($0.file, bytes([UInt32(0), 0]) + names("system.posix_acl_access"))
    },
    Operation("listxattr", \.listxattr, 23) { ($0.file, bytes([UInt32(4096), 0])) },
    Operation("removexattr", \.removexattr, 24) { ($0.file, names("user.test")) },
    Operation("flush", \.flush, 25, isReplayed: true) { ($0.file, bytes([$0.handle, 0, 0])) },
    Operation("getlk", \.getlk, 31) { ($0.file, lock($0.handle)) },
    Operation("setlk", \.setlk, 32) { ($0.file, lock($0.handle)) },
    // FUSE_LK_FLOCK
    Operation("flock", \.flock, 32) { ($0.file, lock($0.handle, flags: 1)) },
    Operation("opendir", \.opendir, 27) { _ in (1, bytes([UInt32(O_RDONLY), 0])) },
    Operation("readdir", \.readdir, 28) { (1, bytes([$0.directoryHandle, 0, 4096, 0, 0])) },
    Operation("readdirplus", \.readdirplus, 44) { (1, bytes([$0.directoryHandle, 0, 4096, 0, 0])) },
    Operation("fsyncdir", \.fsyncdir, 30) { (1, bytes([$0.directoryHandle, 0])) },
    Operation("create", \.create, 35, changes: true) { _ in
      (1, bytes([UInt32(O_RDWR | O_CREAT), 0o644, 0, 0]) + names("new"))
    },
    Operation("fallocate", \.fallocate, 43, changes: true) {
      ($0.file, bytes([$0.handle, 0, 4096, 0]))
    },
    Operation("lseek", \.lseek, 46) {
      // SEEK_DATA
      ($0.file, bytes([$0.handle, 0, 3]))
    },
    Operation("copy_file_range", \.copy_file_range, 47, changes: true) {
      ($0.file, bytes([$0.handle, 0, $0.file, $0.handle, 7, 7, 0]))
    },
    Operation("release", \.release, 18, isReplayed: true) { ($0.file, bytes([$0.handle, 0, 0])) },
    Operation("releasedir", \.releasedir, 29, isReplayed: true) { (1, bytes([$0.directoryHandle, 0, 0])) },
    Operation("forget", \.forget, 2, isReplayed: true) { ($0.file, bytes([UInt64(1)])) },
    Operation("batch_forget", \.forget_multi, 42, isReplayed: true) {
      (0, bytes([UInt32(1), 0]) + bytes([$0.link, 1]))
    },
  ]

  /// A new operation needs a request in the list above.
  @Test func listOfOperations_comparedWithTheTable_isComplete() {
    let covered = Set(Self.operations.map(\.offset) + [MemoryLayout<fuse_lowlevel_ops>.offset(of: \.`init`)])
    let callbacks = withUnsafeBytes(of: Operations.table(passesLocks: true)) { table in
      stride(from: 0, to: table.count, by: 8).filter { table.load(fromByteOffset: $0, as: Int.self) != 0 }
    }
    #expect(Set(callbacks) == covered)
  }

  @Test(arguments: operations) func operation_requestedByAReplayThread_changesNothing(
    _ operation: Operation
  ) throws {
    let session = try Session()
    let replay = try #require(session.kernel.server.replay)
    _ = replay.responders.add(Self.replayThread, session.tree.view)
    let before = try session.state()
    let (node, body) = operation.request(session)
    let reply = session.kernel.send(operation.opcode, node: node, by: Self.replayThread, body)
    #expect(try session.state() == before)
    #expect((reply.error == EIO) != operation.isReplayed, "errno \(reply.error)")
  }

  /// The requests are well-formed: a client's do change the tree.
  @Test(arguments: operations.filter(\.changes)) func operation_requestedByAClient_changesTheTree(
    _ operation: Operation
  ) throws {
    let session = try Session()
    let before = try session.state()
    let (node, body) = operation.request(session)
    #expect(session.kernel.send(operation.opcode, node: node, body).error == 0)
    #expect(try session.state() != before)
  }

  @Test func threadThatNoLongerReplays_isAClient() throws {
    let session = try Session()
    let threads = try #require(session.kernel.server.replay).responders
    _ = threads.add(Self.replayThread, session.tree.view)
    // A client with a thread id that has the same bit in the filter as the replay thread's id.
    #expect(
      session.kernel.send(9, by: Self.replayThread + 64, bytes([UInt32(0o755), 0]) + names("new")).error == 0)
    rmdir(session.tree.path("new"))
    threads.remove(Self.replayThread)
    #expect(session.kernel.send(10, by: Self.replayThread, names("other.txt")).error == 0)
  }
}
