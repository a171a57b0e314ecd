import BackingTree
import Glibc
import PackageStream
import SystemPackage

/// The layouts of the packages that clients have open as files. That of a package with many parts takes much memory, and a client
/// may open the package many times: opens of an unchanged package share one.
final class OpenLayouts: Sendable {
  /// The memory that the layouts of one user may take together, in bytes, where several users share a view.
  static let memory = PackageLayout.mostMemory

  /// What a layout depends on besides the package's state.
  struct Key: Hashable {
    let package: FileIdentity
    let type: String
    let omitted: Set<[UInt8]>
    private let user: uid_t
    private let group: gid_t
    private let groups: [gid_t]

    init(_ package: FileIdentity, type: String, omitting omitted: Set<[UInt8]>, _ credentials: Credentials) {
      (self.package, self.type, self.omitted) = (package, type, omitted)
      (user, group, groups) = (credentials.user, credentials.group, credentials.groups)
    }
  }

  /// The use of a layout by one open package.
  final class Use: Sendable {
    let layout: PackageLayout
    private let number: Int
    private let table: OpenLayouts

    fileprivate init(_ layout: PackageLayout, _ number: Int, in table: OpenLayouts) {
      (self.layout, self.number, self.table) = (layout, number, table)
    }

    deinit { table.end(number) }
  }

  private struct Entry {
    let layout: PackageLayout
    let key: Key
    let user: uid_t
    let size: Int
    var uses = 1
  }

  private struct State {
    var entries: [Int: Entry] = [:]
    /// The number of the newest entry of each key.
    var newest: [Key: Int] = [:]
    /// The memory that the layouts of each user take, in bytes.
    var memory: [NumberKey: Int] = [:]
    /// The number that was given last.
    var last = 0
  }

  private let state = Guarded(State())

  /// The layout to use in place of one that was just made: that of another open of the package, if it is the same.
  ///
  /// - Throws: ENOMEM when the layouts of the user take too much memory.
  func share(_ layout: PackageLayout, for key: Key, of user: uid_t) throws(Errno) -> Use {
    let size = layout.memorySize
    let shared = state.withLock { state -> (layout: PackageLayout, number: Int)? in
      if let number = state.newest[key], let known = state.entries[number]?.layout,
        known.stamp == layout.stamp, known.stamp.isSettled, layout.stamp.isSettled
      {
        state.entries[number]!.uses += 1
        return (known, number)
      }
      let own = state.memory[NumberKey(user)] ?? 0
      guard Self.allows(own: own, more: size) || !ClientDescriptors.areLimitedPerUser else {
        return nil
      }
      state.memory[NumberKey(user)] = own + size
      state.last += 1
      state.entries[state.last] = Entry(layout: layout, key: key, user: user, size: size)
      state.newest[key] = state.last
      return (layout, state.last)
    }
    guard let shared else { throw .noMemory }
    return Use(shared.layout, shared.number, in: self)
  }

  private func end(_ number: Int) {
    // Its memory is freed out of the lock.
    state.discard { state -> Entry? in
      state.entries[number]!.uses -= 1
      guard state.entries[number]!.uses == 0, let entry = state.entries.removeValue(forKey: number) else {
        return nil
      }
      if state.newest[entry.key] == number { state.newest[entry.key] = nil }
      let left = (state.memory[NumberKey(entry.user)] ?? 0) - entry.size
      state.memory[NumberKey(entry.user)] = left > 0 ? left : nil
      return entry
    }
  }

  static func allows(own: Int, more: Int) -> Bool { own + more <= memory }

  /// The memory that the layouts of a user take, in bytes.
  func memory(of user: uid_t) -> Int { state.withLock { $0.memory[NumberKey(user)] ?? 0 } }
}
