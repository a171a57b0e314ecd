import BackingTree
import Glibc
import SystemPackage
import Testing

@testable import FuseServer

@Suite struct LockWaitersTests {
  @Test func users_haveAThreadEach_untilThereAreMany() {
    #expect(LockWaiters.thread(for: 1000, among: []) == 1000)
    #expect(LockWaiters.thread(for: 1000, among: [1, 2]) == 1000)
    let many = Array(1...64) as [uid_t]
    #expect(many.contains(LockWaiters.thread(for: 1000, among: many)))
    #expect(LockWaiters.thread(for: 7, among: many) == 7)
  }

  @Test func auto_passesLocksWhereOthersMayTakeThem() throws {
    let memory = FileSystemKind(of: try FilePath("/dev/shm").openDirectory().rawValue)
    #expect(!LockMode.auto.passesLocks(on: memory) && !LockMode.local.passesLocks(on: memory))
    #expect(LockMode.backing.passesLocks(on: memory))
  }
}
