import DisplayNames
import Synchronization
import Testing
import View

@testable import FuseServer

/// What is decided about stale names and deferred replies. Times are milliseconds.
@Suite struct InvalidationQueuesTests {
  private let box = Box()

  /// The queues, as `#expect` calls nothing that changes a value.
  private final class Box {
    var queues = InvalidationQueues()
    func takeReady() -> NodeID? { queues.takeReady() }
    func takeBatch(_ directory: NodeID) -> InvalidationQueues.Batch? {
      queues.takeBatch(of: directory, now: 0).batch
    }
    func defersReply(mayHoldLock: Bool, now: Int64, _ given: SentReplies = SentReplies()) -> Bool {
      queues.deferReply(untilNamesDropped: 5, for: 1, mayHoldLock: mayHoldLock, now: now, given.reply)
        .isDeferred
    }
    func takeDue(_ now: Int64) -> InvalidationQueues.Due { queues.takeDue(now: now) }
    func isFirstRepeat(of name: StaleName) -> Bool { queues.addRepeat(of: name, now: 0) }
  }

  private func stale(_ name: Name, in directory: NodeID = 5, isDirectory: Bool = false) -> StaleName {
    StaleName(name, in: directory, mayBeDirectory: isDirectory)
  }

  private func add(_ name: Name, in directory: NodeID = 5, isAwaited: Bool = false, at now: Int64 = 0) {
    box.queues.add([stale(name, in: directory)], in: directory, isAwaited: isAwaited, now: now)
  }

  private func names(_ batch: InvalidationQueues.Batch?) -> Set<Name> { Set((batch?.names ?? [:]).keys) }

  @Test func directory_isServedByOneThreadUntilSettled() {
    add("a")
    add("b")
    #expect(box.takeReady() == 5)
    #expect(box.takeReady() == nil)
    #expect(names(box.takeBatch(5)) == ["a", "b"])
    add("c")
    #expect(box.takeReady() == nil)
    #expect(names(box.takeBatch(5)) == ["c"])
    #expect(box.takeBatch(5) == nil)
    add("d")
    #expect(box.takeReady() == 5)
  }

  @Test func staleName_onceMarkedAsDirectory_staysMarked() {
    box.queues.add([stale("a", isDirectory: true)], in: 5, isAwaited: false, now: 0)
    add("a")
    #expect(box.takeBatch(5)?.names["a"]?.mayBeDirectory == true)
  }

  @Test func deferredReply_isSentWhenDirectoryIsSettled() {
    add("a", isAwaited: true)
    #expect(box.queues.awaited == 1)
    let given = SentReplies()
    #expect(box.defersReply(mayHoldLock: false, now: 1, given))
    let isSending = box.takeBatch(5) != nil
    #expect(isSending && given.count == 0)
    let (batch, replies) = box.queues.takeBatch(of: 5, now: 3)
    #expect(batch == nil)
    for reply in replies { reply() }
    #expect(given.count == 1)
    #expect(box.queues.awaited == 0)
    #expect(!box.defersReply(mayHoldLock: false, now: 4, given))
  }

  @Test func deferredReply_toClientThatMayHoldLock_isSentEarly() {
    add("a", isAwaited: true)
    _ = box.queues.takeBatch(of: 5, now: 0)
    let holder = SentReplies()
    let other = SentReplies()
    _ = box.queues.deferReply(untilNamesDropped: 5, for: 1, mayHoldLock: true, now: 1, holder.reply)
    _ = box.queues.deferReply(untilNamesDropped: 5, for: 1, mayHoldLock: false, now: 1, other.reply)
    for reply in box.takeDue(1 + InvalidationQueues.lockHolderWaitLimit).replies { reply() }
    #expect(holder.count == 1)
    #expect(other.count == 0)
    for reply in box.takeDue(1 + InvalidationQueues.lockWaitLimit).replies { reply() }
    #expect(other.count == 1)
    // A reply has waited for this queue up to the limit, so later replies do not wait for it.
    #expect(!box.defersReply(mayHoldLock: false, now: 200, other))
  }

  /// What is added while a batch is sent concerns later walks only: a directory in which changes never end does not defer replies
  /// for ever.
  @Test func deferredReply_isSentWhenEarlierStaleNamesAreInvalidated() {
    add("a", isAwaited: true)
    let first = SentReplies()
    let second = SentReplies()
    _ = box.takeBatch(5)
    #expect(box.defersReply(mayHoldLock: false, now: 1, first))
    add("b", isAwaited: true)
    #expect(box.defersReply(mayHoldLock: false, now: 1, second))
    let (batch, replies) = box.queues.takeBatch(of: 5, now: 2)
    #expect(batch != nil)
    for reply in replies { reply() }
    #expect(first.count == 1 && second.count == 0)
    for reply in box.queues.takeBatch(of: 5, now: 3).replies { reply() }
    #expect(second.count == 1)
  }

  /// Each client that continues while a name is stale may encounter it, the first as well as the last.
  @Test func staleNodes_areReportedForEveryClientThatContinues() {
    box.queues.add(
      [StaleName("a", in: 5, mayBeDirectory: false, node: 77)], in: 5, isAwaited: true, now: 0)
    _ = box.takeBatch(5)
    for time in [Int64(0), 200] {
      let (isDeferred, nodes) = box.queues.deferReply(
        untilNamesDropped: 5, for: 9, mayHoldLock: false, now: time, {})
      let walks = box.takeDue(time + InvalidationQueues.lockWaitLimit).walks
      #expect(isDeferred ? walks.map(\.client) == [9] && walks[0].nodes == [77] : nodes == [77])
      #expect(isDeferred == (time == 0))
    }
  }

  /// On a busy machine no notifier thread has taken the names yet, so none holds a lock.
  @Test func deferredReply_beforeAnyNotification_waitsLonger() {
    add("a", isAwaited: true)
    let given = SentReplies()
    #expect(box.defersReply(mayHoldLock: true, now: 0, given))
    for reply in box.takeDue(InvalidationQueues.maximumDeferral - 1).replies { reply() }
    #expect(given.count == 0)
    for reply in box.takeDue(InvalidationQueues.maximumDeferral).replies { reply() }
    #expect(given.count == 1)
  }

  /// A thread may have read the clock before another one that came first to the queues.
  @Test func clockReading_earlierThanPrevious_isAccepted() {
    add("a", isAwaited: true, at: 10)
    _ = box.queues.takeBatch(of: 5, now: 10)
    #expect(box.defersReply(mayHoldLock: false, now: 9))
    #expect(box.takeDue(8).replies.isEmpty)
  }

  @Test func tooManyStaleNames_invalidateWholeDirectory() {
    for number in 0..<InvalidationQueues.maximumNames { add(Name("\(number)"), in: 6) }
    add("a")
    #expect(!box.queues.hasAnyOverflowed)
    for number in 0..<InvalidationQueues.guaranteedNames { add(Name("\(number)")) }
    #expect(box.queues.hasAnyOverflowed)
    #expect(box.queues.hasOverflowed(5))
    #expect(!box.queues.hasOverflowed(6))
    let batch = box.takeBatch(5)
    #expect(batch?.hasOverflowed == true)
    #expect(batch?.names.isEmpty == true)
    for _ in 0..<2 { _ = box.takeBatch(6) }
    _ = box.takeBatch(5)
    #expect(!box.queues.hasAnyOverflowed)
    for number in 0...InvalidationQueues.guaranteedNames { add(Name("\(number)"), in: 7) }
    #expect(box.takeBatch(7)?.names.count == InvalidationQueues.guaranteedNames + 1)
  }

  @Test func expiredName_isExpiredAgainOnce() {
    #expect(box.isFirstRepeat(of: stale("a", isDirectory: true)))
    #expect(box.takeDue(InvalidationQueues.repeatDelay - 1).next == InvalidationQueues.repeatDelay)
    #expect(box.takeReady() == nil)
    _ = box.takeDue(InvalidationQueues.repeatDelay)
    #expect(box.takeReady() == 5)
    #expect(
      box.takeBatch(5)?.names["a"]
        == InvalidationQueues.Staleness(mayBeDirectory: true, isRepeated: true))
  }

  private final class SentReplies: Sendable {
    private let counter = Atomic<Int>(0)
    var count: Int { counter.load(ordering: .relaxed) }
    var reply: InvalidationQueues.Reply { { self.counter.add(1, ordering: .relaxed) } }
  }
}
