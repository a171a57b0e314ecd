import BackingTree
import CFuse
import CLinux
import Glibc
import Synchronization
import SystemPackage
import Testing

extension RequestHandlingTests {
  /// The kernel interrupts a request when its client gets any signal. Only a client that is being killed abandons the request.
  /// The end of the session abandons work that is for the reply alone.
  @Suite struct InterruptionTests {
    @Test func requestOfDeadClient_whenInterrupted_ends() throws {
      var child: pid_t = 0
      var arguments: [UnsafeMutablePointer<CChar>?] = [strdup("/bin/true"), nil]
      defer { free(arguments[0]) }
      try #require(posix_spawn(&child, "/bin/true", nil, nil, &arguments, environ) == 0)
      waitpid(child, nil, 0)
      #expect(try isInterrupted(client: child))
    }

    @Test func requestOfLivingClient_whenInterrupted_continues() throws {
      #expect(try !isInterrupted(client: getpid()))
    }

    @Test func replyOnlyWork_whenSessionEnds_ends() throws {
      #expect(try isInterrupted(by: .endOfSession, isDiscardable: true))
    }

    @Test func savingWork_whenSessionEnds_continues() throws {
      #expect(try !isInterrupted(by: .endOfSession, isDiscardable: false))
    }

    @Test func replyOnlyWork_duringSession_continues() throws {
      #expect(try !isInterrupted(client: getpid(), isDiscardable: true))
    }

    private enum Cause {
      case interruptRequest, endOfSession
    }

    /// Serves a request that takes until it is interrupted, at most a second. - Returns: whether it was.
    private func isInterrupted(
      client: pid_t = getpid(), by cause: Cause = .interruptRequest, isDiscardable: Bool = false
    ) throws -> Bool {
      let simulated = try SimulatedDevice()
      defer { withExtendedLifetime(simulated) {} }
      let (device, kernel) = (simulated.device, simulated.kernel)
      let wasInterrupted = Atomic(false)
      let opcodes = (lookup: UInt32(1), interrupt: UInt32(36))
      dfs_receive_begin(4)
      defer { dfs_receive_end() }
      let threads = (0..<4).map { _ in
        Thread {
          var request = [UInt32](repeating: 0, count: 12)
          while dfs_receive(device, &request, 48) > 0 {
            guard request[1] == opcodes.lookup else {
              if cause == .endOfSession { dfs_receive_stop() }
              continue
            }
            let work = {
              for _ in 0..<100 where !wasInterrupted.load(ordering: .relaxed) {
                if (try? Interruption.check()) == nil { wasInterrupted.store(true, ordering: .relaxed) }
                usleep(10_000)
              }
            }
            if isDiscardable { Interruption.runDiscardable(work) } else { work() }
            shutdown(kernel, CInt(SHUT_WR))
          }
        }
      }
      // `struct fuse_in_header`, and what is interrupted: no request has the number 9.
      for (opcode, unique, interrupted) in [
        (opcodes.lookup, UInt32(7), UInt32(0)), (opcodes.interrupt, 8, cause == .interruptRequest ? 7 : 9),
      ] {
        send(
          kernel, [48, opcode, unique, 0, 0, 0, 61001, 61001, UInt32(client), 0, interrupted, 0], 48,
          CInt(MSG_NOSIGNAL))
      }
      for thread in threads { thread?.join() }
      return wasInterrupted.load(ordering: .relaxed)
    }
  }
}
