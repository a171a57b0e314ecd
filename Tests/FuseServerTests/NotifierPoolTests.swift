import BackingTree
import Testing

@testable import FuseServer

@Suite struct NotifierPoolTests {
  /// Jobs that wait for a lock do not delay other jobs.
  @Test func job_whileManyOthersBlock_isRun() {
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

  /// A thread that is being stopped may still add a last job.
  @Test func job_addedAfterStop_isRunAtOnce() {
    let pool = NotifierPool()
    pool.start { nil }
    #expect(pool.stop(milliseconds: 10_000).isEmpty)
    let isDone = Guarded(false)
    pool.add { isDone.withLock { $0 = true } }
    #expect(isDone.withLock { $0 })
  }
}
