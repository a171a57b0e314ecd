import BackingTree
import CFuse
import Glibc
import Testing

extension RequestHandlingTests {
  /// Requests of a user that are buffered, as other requests of that user hang.
  @Suite struct BufferedRequestTests {
    private static let (lookup, flush, setLockWaiting, interrupt): (UInt32, UInt32, UInt32, UInt32) = (
      1, 25, 33, 36
    )

    /// Sixteen workers, and one to receive. A request hangs if its number is below 1000.
    private final class Workers {
      private let simulated: SimulatedDevice
      private let received = Guarded<[UInt32]>([])
      private let mayGoOn = BackingTree.Semaphore()
      private var threads: [BackingTree.Thread?] = []
      private var hanging = 0

      init() throws {
        simulated = try SimulatedDevice()
        let (device, received, mayGoOn) = (simulated.device, received, mayGoOn)
        dfs_receive_begin(17)
        threads = (0..<17).map { _ in
          BackingTree.Thread {
            var request = [UInt32](repeating: 0, count: 12)
            while dfs_receive(device, &request, 48) > 0 {
              received.withLock { $0.append(request[2]) }
              if request[2] < 1000 { mayGoOn.wait() }
            }
          }
        }
      }

      func send(
        _ unique: UInt32, _ opcode: UInt32, user: UInt32 = 1, client: pid_t = getpid(),
        interrupting: UInt32 = 0
      ) {
        if unique < 1000 { hanging += 1 }
        Glibc.send(
          simulated.kernel, [48, opcode, unique, 0, 0, 0, user, user, UInt32(client), 0, interrupting, 0],
          48,
          CInt(MSG_NOSIGNAL))
      }

      func isReceived(_ unique: UInt32, within milliseconds: Int = 5000) -> Bool {
        for _ in 0..<milliseconds / 5 {
          if received.withLock({ $0.contains(unique) }) { return true }
          usleep(5000)
        }
        return false
      }

      /// The next reply of the request loop itself; nil where there is none.
      func reply() -> (unique: UInt32, error: Int32)? {
        var reply = [UInt32](repeating: 0, count: 4)
        guard recv(simulated.kernel, &reply, 16, CInt(MSG_DONTWAIT)) == 16 else { return nil }
        return (reply[2], Int32(bitPattern: reply[1]))
      }

      func end() {
        for _ in 0..<hanging { mayGoOn.post() }
        shutdown(simulated.kernel, CInt(SHUT_WR))
        for thread in threads { thread?.join() }
        dfs_receive_end()
      }
    }

    /// Each of them takes as many workers as it may.
    @Test func requestOfUser_whileAllRequestsOfFiveUsersHang_isServed() throws {
      let workers = try Workers()
      defer { workers.end() }
      var unique: UInt32 = 0
      for user in 1...5 as ClosedRange<UInt32> {
        for _ in 0..<16 {
          unique += 2
          workers.send(unique, Self.lookup, user: user)
        }
        #expect(workers.isReceived(unique - 30))
      }
      workers.send(1000, Self.lookup, user: 6)
      #expect(workers.isReceived(1000))
    }

    /// Of a process that handles the signal. libfuse, which knows no such request, would have the kernel send it again and again.
    @Test func interruptOfBufferedRequest_reachesNoWorker() throws {
      let workers = try Workers()
      defer { workers.end() }
      for unique in stride(from: 2, through: 40, by: 2) as StrideThrough<UInt32> {
        workers.send(unique, unique == 38 ? Self.setLockWaiting : Self.lookup)
      }
      workers.send(1001, Self.interrupt, interrupting: 36)
      workers.send(1003, Self.interrupt, interrupting: 38)
      // That of a request that is served.
      #expect(workers.isReceived(2))
      workers.send(1005, Self.interrupt, interrupting: 2)
      #expect(workers.isReceived(1005))
      #expect(!workers.isReceived(1001, within: 0) && !workers.isReceived(1003, within: 0))
      // As for fcntl(2), a signal ends the wait for a lock.
      let reply = try #require(workers.reply())
      #expect(reply.unique == 38 && reply.error == -EINTR)
      #expect(workers.reply() == nil)
    }

    /// With its FLUSH, a process would keep its locks.
    @Test func bufferedRequestOfDeadClient_whenInterrupted_isDroppedUnlessItIsFlush() throws {
      var child: pid_t = 0
      var arguments: [UnsafeMutablePointer<CChar>?] = [strdup("true"), nil]
      defer { free(arguments[0]) }
      try #require(posix_spawnp(&child, "true", nil, nil, &arguments, environ) == 0)
      waitpid(child, nil, 0)
      let workers = try Workers()
      defer { workers.end() }
      for unique in stride(from: 2, through: 36, by: 2) as StrideThrough<UInt32> {
        workers.send(unique, Self.lookup)
      }
      workers.send(38, Self.flush, client: child)
      workers.send(40, Self.lookup, client: child)
      workers.send(1001, Self.interrupt, interrupting: 38)
      workers.send(1003, Self.interrupt, interrupting: 40)
      #expect(workers.isReceived(2))
      workers.send(1005, Self.interrupt, interrupting: 2)
      #expect(workers.isReceived(1005))
      let reply = try #require(workers.reply())
      #expect(reply.unique == 40 && reply.error == -EINTR)
      #expect(workers.reply() == nil)
    }
  }
}
