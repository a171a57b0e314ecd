import BackingTree

/// File systems mounted below SOURCE that a program or another machine serves.
///
/// A call into one that has stopped does not return. So the kernel keeps nothing of them and none of their directories is watched:
/// the thread that follows the changes of the tree, which serves all clients, never looks at them.
final class RemoteMounts: Sendable {
  private struct Known {
    let isRemote: Bool
    let time: Int64
  }

  /// A device may be another file system's after an unmount. In nanoseconds.
  private static let validity: Int64 = 1_000_000_000
  private static let capacity = 256

  private let home: UInt64
  private let devices = Guarded<[UInt64: Known]>([:])

  /// - Parameter home: the device of SOURCE. Where that stops, everything does.
  init(home: UInt64) { self.home = home }

  func contain(_ device: UInt64) -> Bool { device != home && contain(device, now: monotonicNanoseconds()) }

  /// - Parameter now: of the monotonic clock, in nanoseconds.
  func contain(_ device: UInt64, now: Int64) -> Bool {
    if let known = devices.withLock({ $0[device] }), now - known.time < Self.validity {
      return known.isRemote
    }
    let known = Known(isRemote: MountTable.isRemote(device), time: now)
    devices.withLock { devices in
      if devices.count >= Self.capacity { devices.removeAll() }
      devices[device] = known
    }
    return known.isRemote
  }
}
