import BackingTree
import CFuse
import CLinux
import Glibc
import Synchronization
import Testing

extension RequestHandlingTests {
  /// Requests that arrive through a socket. Each takes some time to serve, but less than the watchdog waits.
  @Suite struct OverflowWorkerTests {
    @Test func slowRequestsOfSeveralClients_areServedConcurrently() throws {
      #expect(try maximumConcurrency(callers: 4) == 4)
    }

    @Test func requestsOfLoneClient_areServedByOneWorker() throws {
      #expect(try maximumConcurrency(callers: 1) == 1)
    }

    /// A request in the kernel's format (`struct fuse_in_header`): the second word is the opcode, the ninth the client's `pid`.
    private typealias Header = [UInt32]

    /// - Parameter callers: the number of clients. Each sends its next request when the last one is served.
    /// - Returns: the largest number of requests that were served at once.
    private func maximumConcurrency(callers: Int) throws -> Int {
      let simulated = try SimulatedDevice()
      defer { withExtendedLifetime(simulated) {} }
      let (device, asking) = (simulated.device, simulated.kernel)
      let left = Atomic(300)
      let now = Atomic(0)
      let most = Atomic(0)
      dfs_receive_begin(8)
      defer { dfs_receive_end() }
      let threads = (0..<8).map { _ in
        Thread {
          var request = Header(repeating: 0, count: 10)
          while dfs_receive(device, &request, 40) == 40 {
            most.max(now.add(1, ordering: .relaxed).newValue, ordering: .relaxed)
            usleep(800)
            now.subtract(1, ordering: .relaxed)
            if left.subtract(1, ordering: .relaxed).newValue > 0 {
              send(asking, request, 40, CInt(MSG_NOSIGNAL))
            } else {
              shutdown(asking, CInt(SHUT_WR))
            }
          }
        }
      }
      for caller in 1...callers {
        send(asking, Header([40, 1, 0, 0, 0, 0, 0, 0, UInt32(caller), 0]), 40, CInt(MSG_NOSIGNAL))
      }
      for thread in threads { thread?.join() }
      return most.load(ordering: .relaxed)
    }
  }
}
