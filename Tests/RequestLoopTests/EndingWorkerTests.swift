import BackingTree
import CFuse
import Glibc
import Testing

extension RequestHandlingTests {
  /// libfuse ends a worker where more than ten are idle. That worker receives no further request.
  @Suite struct EndingWorkerTests {
    @Test func bufferedRequest_whenTheWorkerOfTheRequestBeforeEnds_isReceivedByAnother() throws {
      let simulated = try SimulatedDevice()
      defer { withExtendedLifetime(simulated) {} }
      let (device, kernel) = (simulated.device, simulated.kernel)
      let received = Guarded<[UInt32]>([])
      let mayEnd = Semaphore()
      // Two requests at a time, and one of each user.
      dfs_receive_begin(3)
      defer { dfs_receive_end() }
      let threads = (0..<3).map { _ in
        Thread {
          var request = [UInt32](repeating: 0, count: 12)
          while dfs_receive(device, &request, 48) > 0 {
            received.withLock { $0.append(request[2]) }
            guard request[2] == 1 else { continue }
            mayEnd.wait()
            return
          }
        }
      }
      func send(_ unique: UInt32) {
        let lookup: UInt32 = 1
        Glibc.send(kernel, [48, lookup, unique, 0, 0, 0, 61001, 61001, 0, 0, 0, 0], 48, CInt(MSG_NOSIGNAL))
      }
      for unique in 1...2 as ClosedRange<UInt32> { send(unique) }
      usleep(200_000)
      #expect(received.withLock { $0 } == [1])
      mayEnd.post()
      for _ in 0..<200 where received.withLock({ $0.count }) < 2 { usleep(10_000) }
      #expect(received.withLock { $0 } == [1, 2])
      shutdown(kernel, CInt(SHUT_WR))
      for thread in threads { thread?.join() }
    }
  }
}
