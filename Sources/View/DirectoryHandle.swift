import BackingTree
import Synchronization
import SystemPackage

/// An open backing directory, closed when nobody uses it any more.
public final class DirectoryHandle: Sendable {
  private let descriptor: Descriptor

  init(adopting descriptor: consuming Descriptor) { self.descriptor = descriptor }

  public var directory: Directory { Directory(descriptor: descriptor.rawValue) }
}

/// The directories used last, by node: a bounded number of descriptors, whatever the number of nodes.
final class DirectoryHandleCache: Sendable {
  private struct State {
    var handles: [NodeID: (handle: DirectoryHandle, used: UInt64)] = [:]
    var clock: UInt64 = 0
  }

  private let limit: Int
  private let state = Mutex(State())

  init(limit: Int) { self.limit = limit }

  func handle(of id: NodeID) -> DirectoryHandle? {
    state.withLock { state in
      guard let found = state.handles[id]?.handle else { return nil }
      state.clock += 1
      state.handles[id]!.used = state.clock
      return found
    }
  }

  func insert(_ handle: DirectoryHandle, for id: NodeID) {
    state.withLock { state in
      state.clock += 1
      state.handles[id] = (handle, state.clock)
      guard state.handles.count > limit else { return }
      // A quarter at a time, so that the sort is paid for by many insertions.
      let oldest = state.handles.sorted { $0.value.used < $1.value.used }.prefix(limit / 4)
      for (id, _) in oldest { state.handles[id] = nil }
    }
  }

  func remove(_ id: NodeID) { state.withLock { $0.handles[id] = nil } }
}
