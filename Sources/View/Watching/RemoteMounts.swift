import BackingTree

/// File systems mounted below SOURCE that a user-space program or another machine serves.
///
/// A call into such a file system does not return if its server has stopped. So the kernel caches nothing of them, and none of
/// their directories is watched: the change loop, which serves all clients, never calls into them.
final class RemoteMounts: Sendable {
  private struct Known {
    let isRemote: Bool
    let time: Int64
  }

  /// In nanoseconds. After an unmount the device number may belong to another file system.
  private static let validity: Int64 = 1_000_000_000
  private static let capacity = 256

  private let home: UInt64
  private let devices = Guarded<[UInt64: Known]>([:])

  /// - Parameter home: the device of SOURCE. If its server stops, the whole view stops anyway.
  init(home: UInt64) { self.home = home }

  func contains(_ device: UInt64) -> Bool { device != home && contains(device, now: monotonicNanoseconds()) }

  /// - Parameter now: the time of the monotonic clock in nanoseconds.
  func contains(_ device: UInt64, now: Int64) -> Bool {
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
