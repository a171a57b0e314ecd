import BackingTree
import Testing

@testable import FuseServer

@Suite struct NotifierPoolTests {
  /// Jobs that wait for a lock keep no other from being done.
  @Test func job_isDoneWhileManyOthersWait() {
    let pool = NotifierPool()
    pool.start { nil }
    let lock = Semaphore()
    let done = Semaphore()
    for _ in 0..<100 { pool.add { lock.wait() } }
    pool.add { done.post() }
    #expect(done.wait(milliseconds: 10_000))
    for _ in 0..<100 { lock.post() }
    #expect(pool.stop(milliseconds: 10_000).isEmpty)
    #expect(pool.waitUntilEnded(milliseconds: 0))
  }

  @Test func job_thatWasNotBegun_isReturned() {
    let pool = NotifierPool()
    pool.start { nil }
    let lock = Semaphore()
    let begun = Semaphore()
    // The stopping thread has ended them before the last ones begin.
    pool.add {
      begun.post()
      lock.wait()
    }
    #expect(begun.wait(milliseconds: 10_000))
    let left = pool.stop(milliseconds: 0)
    pool.add {}
    lock.post()
    #expect(left.isEmpty)
    #expect(pool.waitUntilEnded(milliseconds: 10_000))
    #expect(pool.stop(milliseconds: 0).count == 1)
  }
}
