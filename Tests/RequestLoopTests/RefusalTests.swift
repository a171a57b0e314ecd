import BackingTree
import CFuse
import Glibc
import Testing

extension RequestHandlingTests {
  /// A user has 64 MiB of requests waiting, and no more are kept.
  @Suite struct RefusalTests {
    private static let size = 128 << 10
    private static let (write, release, flush): (UInt32, UInt32, UInt32) = (16, 18, 25)

    @Test func releaseAndCachedPages_whenTooManyRequestsWait_areKept() throws {
      let simulated = try SimulatedDevice()
      defer { withExtendedLifetime(simulated) {} }
      let (device, kernel) = (simulated.device, simulated.kernel)
      var room = CInt(4 << 20)
      for end in [device, kernel] {
        setsockopt(end, SOL_SOCKET, SO_SNDBUF, &room, socklen_t(MemoryLayout<CInt>.size))
      }
      var longest = timeval(tv_sec: 20, tv_usec: 0)
      setsockopt(kernel, SOL_SOCKET, SO_RCVTIMEO, &longest, socklen_t(MemoryLayout<timeval>.size))
      let received = Guarded<[UInt32]>([])
      let mayGoOn = Semaphore()
      dfs_receive_begin(2)
      defer { dfs_receive_end() }
      let threads = (0..<2).map { _ in
        Thread {
          var request = [UInt32](repeating: 0, count: Self.size / 4)
          while dfs_receive(device, &request, Self.size) > 0 {
            let unique = request[2]
            received.withLock { $0.append(unique) }
            if unique == 1 { mayGoOn.wait() }
          }
        }
      }
      func send(_ unique: UInt32, _ operation: UInt32, size: Int = Self.size, isCached: Bool = false) {
        var request = [UInt32](repeating: 0, count: size / 4)
        request.replaceSubrange(0..<8, with: [UInt32(size), operation, unique, 0, 0, 0, 61001, 61001])
        // FUSE_WRITE_CACHE in `fuse_write_in`, which has no handle here.
        if isCached { request[15] = 1 }
        Glibc.send(kernel, request, size, CInt(MSG_NOSIGNAL))
      }
      let most = UInt32(64 << 20 / Self.size)
      for unique in 1...(most + 2) { send(unique, Self.write) }
      let refused = most + 2
      var reply = [UInt32](repeating: 0, count: 4)
      #expect(recv(kernel, &reply, 16, 0) == 16)
      #expect(reply[2] == refused && Int32(bitPattern: reply[1]) == -ENOMEM)
      send(refused + 1, Self.write, isCached: true)
      send(refused + 2, Self.release, size: 64)
      send(refused + 3, Self.flush, size: 64)
      send(refused + 4, Self.write)
      #expect(recv(kernel, &reply, 16, 0) == 16)
      #expect(reply[2] == refused + 4)
      mayGoOn.post()
      for _ in 0..<500 where received.withLock({ $0.count }) < Int(most) + 4 { usleep(10_000) }
      #expect(received.withLock { $0 } == Array(1...(most + 1)) + [refused + 1, refused + 2, refused + 3])
      shutdown(kernel, CInt(SHUT_WR))
      for thread in threads { thread?.join() }
    }
  }
}
