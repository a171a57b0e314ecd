import Glibc

extension ChangeWatch {
  /// The event that a change made by this process is about to cause.
  public struct SelfEvent: Sendable {
    public enum Kind: Sendable { case movedAway, movedHere, made, removed }

    let watched: Watched
    /// The watch whose owner makes the change. The owners of other watches on the same directory do not know of it.
    let serial: UInt64
    fileprivate let kind: ChangeEvent.Mask
    let name: ContiguousArray<CChar>

    public init(_ kind: Kind, _ name: UnsafePointer<CChar>, in directory: Subscription) {
      watched = directory.watched
      serial = directory.serial
      self.kind =
        switch kind {
        case .movedAway: .movedAway
        case .movedHere: .movedHere
        case .made: .made
        case .removed: .removed
        }
      self.name = ContiguousArray(UnsafeBufferPointer(start: name, count: strlen(name) + 1))
    }

    var isMove: Bool { kind == .movedAway || kind == .movedHere }

    fileprivate func isNamed(_ name: UnsafePointer<CChar>, in watched: Watched) -> Bool {
      self.watched == watched && self.name.withUnsafeBufferPointer { strcmp($0.baseAddress!, name) == 0 }
    }
  }
}

/// The events that changes made by this process are about to cause, until the kernel has reported them.
struct SelfEvents {
  typealias Serials = Range<UInt64>

  private enum State {
    /// The call that makes the change has not returned.
    case inProgress
    /// The call has returned. The kernel has queued the event, if there is one.
    case queued
    /// The queue is being read after the call returned. A self event not matched by the end of that read never arrives.
    case due
  }

  private var expected: [(serial: UInt64, selfEvent: ChangeWatch.SelfEvent, state: State)] = []
  private var serial: UInt64 = 0

  mutating func expect(_ first: ChangeWatch.SelfEvent?, _ second: ChangeWatch.SelfEvent?) -> Serials {
    let start = serial
    if let first { add(first) }
    if let second { add(second) }
    return start..<serial
  }

  private mutating func add(_ selfEvent: ChangeWatch.SelfEvent) {
    expected.append((serial, selfEvent, .inProgress))
    serial += 1
  }

  /// Called when the call that makes the change has returned.
  mutating func noteQueued(_ serials: Serials) {
    for index in expected.indices where serials.contains(expected[index].serial) {
      expected[index].state = .queued
    }
  }

  /// Called when the call has failed.
  ///
  /// - Returns: the serials of which an event was taken.
  mutating func cancel(_ serials: Serials) -> [UInt64] {
    let left = expected.filter { serials.contains($0.serial) }.map(\.serial)
    expected.removeAll { serials.contains($0.serial) }
    return serials.filter { !left.contains($0) }
  }

  /// Called before the queue is read. - Returns: whether any self event is expected.
  mutating func beginReading() -> Bool {
    for index in expected.indices where expected[index].state == .queued { expected[index].state = .due }
    return !expected.isEmpty
  }

  /// Called when the queue was read. A due self event that was not matched never arrives: nothing changed, or the watch began
  /// after the change.
  mutating func endReading() { expected.removeAll { $0.state == .due } }

  /// Removes the expected events of a name. The kernel may merge several events of one name.
  ///
  /// - Returns: the serial of the watch whose owner made all changes in `kinds`; nil if there is none.
  mutating func take(
    _ kinds: ChangeEvent.Mask, _ name: UnsafePointer<CChar>, in watched: ChangeWatch.Watched
  ) -> UInt64? {
    var unknown = kinds
    var owner: UInt64?
    var isOnlyOwner = true
    expected.removeAll { _, selfEvent, _ in
      guard unknown.contains(selfEvent.kind), selfEvent.isNamed(name, in: watched) else { return false }
      unknown.subtract(selfEvent.kind)
      if let owner, owner != selfEvent.serial { isOnlyOwner = false }
      owner = selfEvent.serial
      return true
    }
    return unknown.isEmpty && isOnlyOwner ? owner : nil
  }
}
