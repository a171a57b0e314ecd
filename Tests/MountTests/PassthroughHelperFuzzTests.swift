import CLinux
import Fuzzing
import Glibc
import SystemPackage
import Testing

extension PassthroughHelperTests {
  /// Messages and descriptors of all kinds neither bring displayfs-passthrough down nor register what must not be.
  @Suite struct PassthroughHelperFuzzTests {
    private struct Offer {
      let descriptor: CInt
      /// Whether it is a data file that the user may read and write.
      let isAllowed: Bool
    }

    /// A helper with its connection, and what is registered there.
    private struct Served {
      let connection: BareConnection
      let helper: PassthroughHelperProcess
      var registered: Set<Int32> = []

      init(_ user: uid_t) throws {
        connection = try BareConnection(of: user)
        helper = try PassthroughHelperProcess()
        try demand(helper.register(connection.device) == 0, "the device was refused")
      }
    }

    @Test func passthroughHelper_withRandomMessages_registersNothingForbidden() throws {
      let user = try #require(OrdinaryUser.identifier)
      // `Mount/fuzz` sets TMPDIR to a tmpfs, of which the helper registers no files.
      let directory = try TemporaryDirectory(in: "/var/tmp")
      let offers = try offers(in: directory, user)
      defer { for offer in offers { close(offer.descriptor) } }
      var served: Served?
      try fuzz("passthroughHelper", rounds: fuzzRounds(400)) { generator in
        var current = try served ?? Served(user)
        served = nil
        let isTaken = try attempt(&current, offers, &generator)
        if isTaken { served = current }
        return isTaken
      }
    }

    /// - Returns: whether the message kept to the protocol. If not the helper has ended, as it must.
    private func attempt(
      _ served: inout Served, _ offers: [Offer], _ generator: inout SeededGenerator
    ) throws -> Bool {
      let chosen = (0..<([0, 0, 1, 1, 1, 1, 1, 2, 3, 64].randomElement(using: &generator)!)).map { _ in
        offers.randomElement(using: &generator)!
      }
      let value: Int32 =
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: served.registered.randomElement(using: &generator) ?? 1
        case 1: 0
        case 2: .random(in: -5...5, using: &generator)
        default: .random(in: .min ... .max, using: &generator)
        }
      var bytes = (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
      if Int.random(in: 0..<8, using: &generator) == 0 {
        bytes = (0..<Int.random(in: 0...4096, using: &generator)).map { _ in
          .random(in: 0...255, using: &generator)
        }
      }
      served.helper.send(bytes, chosen.map(\.descriptor))
      guard bytes.count == 4, chosen.count <= 1 else {
        try demand(served.helper.answer() == nil, "a message against the protocol was answered")
        let status = served.helper.end()
        try demand(status == 0, "it ended with status \(status)")
        return false
      }
      guard let offer = chosen.first else {
        served.registered.remove(value)
        return true
      }
      let answer = served.helper.answer() ?? 0
      try demand(answer != 0, "it ended, or answered 0")
      guard offer.isAllowed else {
        try demand(answer < 0, "what must not be registered was, as \(answer)")
        return true
      }
      if answer == -EDQUOT, served.registered.count > 900 { return true }
      try demand(answer > 0, "what may be registered was refused (\(-answer))")
      try demand(served.registered.insert(answer).inserted, "the id \(answer) was given twice")
      return true
    }

    private func offers(in directory: TemporaryDirectory, _ user: uid_t) throws -> [Offer] {
      func file(_ name: String, _ owner: uid_t, _ mode: mode_t, _ flags: CInt) throws -> CInt {
        let path = directory.path(name)
        try put("content", at: path)
        try #require(chown(path, owner, 0) == 0 && chmod(path, mode) == 0)
        return open(path, flags | O_CLOEXEC)
      }
      var ends: [CInt] = [0, 0]
      try #require(pipe(&ends) == 0)
      var sockets: [CInt] = [0, 0]
      try #require(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &sockets) == 0)
      let allowed = try [
        file("own", user, 0o600, O_RDWR), file("read", user, 0o600, O_RDONLY),
        file("path", user, 0o600, dfs_O_PATH),
        file("all", 0, 0o666, O_WRONLY | O_APPEND),
      ]
      let refused = try [
        file("root", 0, 0o644, O_RDWR), file("rootRead", 0, 0o644, O_RDONLY),
        file("rootPath", 0, 0o600, dfs_O_PATH),
        file("still", user, 0o444, O_RDONLY), open(directory.root, O_RDONLY),
        open(directory.root, dfs_O_PATH),
        open("/dev/null", O_RDWR), open("/dev/zero", dfs_O_PATH), open("/dev/fuse", O_RDWR),
        open("/proc/self/pagemap", O_RDONLY), open("/proc/self/maps", O_RDONLY),
        open("/sys/kernel/mm", O_RDONLY),
        open("/proc/self/ns/user", O_RDONLY), inotify_init1(0),
      ]
      let offers =
        allowed.map { Offer(descriptor: $0, isAllowed: true) }
        + (refused + ends + sockets).map { Offer(descriptor: $0, isAllowed: false) }
      #expect(offers.allSatisfy { $0.descriptor >= 0 })
      return offers
    }
  }
}
