import BackingTree
import CLinux
import Glibc
import SystemPackage
import View

/// The locks of clients, where they are passed to the backing tree. (``LockMode/backing``)
///
/// The kernel names an owner for each lock: a process (fcntl(2)), or an open file (flock(2), F_OFD_SETLK). Each owner has an
/// open file description of the backing file here. Locks of different descriptions conflict with each other and with those of
/// all other processes, and they end with their description.
final class FileLocks: Sendable {
  /// A file or package that a client has open.
  struct Open: Sendable {
    let node: NodeID
    /// `fh` of the protocol.
    let handle: UInt64
    /// nil where the locks hold in the mount alone: for a package, which is no file in the backing tree, and for a file with
    /// mandatory locks.
    let file: OpenFile?
  }

  private final class Description: Sendable {
    let descriptor: Descriptor
    let mayWrite: Bool
    private let user: uid_t

    /// - Parameter user: the user for which the descriptor is counted.
    init(_ descriptor: consuming Descriptor, mayWrite: Bool, countedFor user: uid_t) {
      self.descriptor = descriptor
      self.mayWrite = mayWrite
      self.user = user
    }

    deinit { ClientDescriptors.opened.release(1, of: user) }
  }

  private struct Record {
    let description: Description
    /// The open files through which the owner has taken locks.
    var handles: Set<UInt64>
  }

  let waiters = LockWaiters()
  /// By node, then by owner.
  private let records = Guarded<[NodeID: [UInt64: Record]]>([:])
  /// Held from the search for a file in memory until its description is in `records`, so that a node has one such file.
  private let makingMemoryFile = RecursionFreeLock(.openFile)

  // MARK: Requests

  /// Sets or removes a lock on a range of bytes. Does not wait.
  ///
  /// - Throws: EAGAIN where another owner has a conflicting lock; ENOLCK where the owner had opened the file only for reading when
  ///   it took its first lock, and has now opened it for writing; ENFILE where the client's user has too many descriptors.
  func set(_ range: flock, of owner: UInt64, in open: Open, for client: Client) throws(Errno) {
    try change(of: owner, in: open, for: client, removes: range.l_type == F_UNLCK) { descriptor in
      var range = range
      range.l_pid = 0
      return dfs_ofd_lock(descriptor, dfs_F_OFD_SETLK, &range)
    }
    if range.l_type != F_WRLCK { waiters.wake(open.node) }
  }

  /// Sets or removes a lock on the whole file. Does not wait. Errors as those of ``set(_:of:in:for:)``.
  ///
  /// - Parameter operation: LOCK_SH, LOCK_EX or LOCK_UN.
  func flock(_ operation: CInt, of owner: UInt64, in open: Open, for client: Client) throws(Errno) {
    try change(of: owner, in: open, for: client, removes: operation == LOCK_UN) {
      dfs_flock($0, operation | LOCK_NB)
    }
    if operation != LOCK_EX { waiters.wake(open.node) }
  }

  /// The first lock that conflicts with one that an owner could set; of type F_UNLCK where there is none. (F_GETLK)
  ///
  /// Its process is 0, not known, where another client of the view has it: all such locks are the daemon's.
  func conflict(with range: flock, of owner: UInt64, in open: Open) throws(Errno) -> flock {
    let (own, other) = records.withLock { records in
      (records[open.node]?[owner]?.description, records[open.node]?.values.first?.description)
    }
    var range = range
    range.l_pid = 0
    func query(_ descriptor: CInt) throws(Errno) {
      try systemCall { dfs_ofd_lock(descriptor, dfs_F_OFD_GETLK, &range) }
    }
    if let own {
      try query(own.descriptor.rawValue)
    } else if let file = open.file {
      try query(file.descriptor.rawValue)
    } else if let other {
      // A description of no owner: any of theirs would leave out its own locks.
      try query(other.descriptor.opened(O_RDWR).rawValue)
    } else {
      range.l_type = Int16(F_UNLCK)
    }
    range.l_pid = max(0, range.l_pid)
    return range
  }

  /// Removes all locks of an owner on a file: a process loses them when it closes any of its descriptors of the file.
  /// (fcntl(2))
  func removeAll(of owner: UInt64, on node: NodeID) {
    let ended = records.withLock { records in records[node]?.removeValue(forKey: owner) }
    didEnd(ended.map { [$0.description] } ?? [], of: node)
  }

  /// Removes the locks that were taken through an open file which is now closed by all processes.
  func closed(_ handle: UInt64, of node: NodeID) {
    let ended = records.withLock { records -> [Description] in
      guard let owners = records[node]?.filter({ $0.value.handles.contains(handle) }) else { return [] }
      var ended: [Description] = []
      for (owner, record) in owners {
        records[node]?[owner]?.handles.remove(handle)
        if record.handles.count > 1 { continue }
        ended.append(record.description)
        records[node]?[owner] = nil
      }
      return ended
    }
    didEnd(ended, of: node)
  }

  /// Closes descriptions, which removes their locks.
  private func didEnd(_ ended: consuming [Description], of node: NodeID) {
    guard !ended.isEmpty else { return }
    ended.removeAll()
    records.withLock { records in if records[node]?.isEmpty ?? false { records[node] = nil } }
    waiters.wake(node)
  }

  // MARK: Descriptions

  private func change(
    of owner: UInt64, in open: Open, for client: Client, removes: Bool, _ call: (CInt) -> CInt
  ) throws(Errno) {
    if let known = note(owner, open) {
      // A lock cannot pass from one description to another.
      guard removes || known.mayWrite || !(open.file?.mayWrite ?? false) else { throw .noLocks }
      try systemCall { call(known.descriptor.rawValue) }
    } else if !removes {
      let description = try makeDescription(of: owner, open, for: client)
      try systemCall { call(description.descriptor.rawValue) }
    }
  }

  /// The description of an owner, which uses it through an open file. Nil where it has none.
  private func note(_ owner: UInt64, _ open: Open) -> Description? {
    records.withLock { records in
      records[open.node]?[owner]?.handles.insert(open.handle)
      return records[open.node]?[owner]?.description
    }
  }

  private func makeDescription(
    of owner: UInt64, _ open: Open, for client: Client
  ) throws(Errno) -> Description {
    if open.file == nil { makingMemoryFile.lock() }
    defer { if open.file == nil { makingMemoryFile.unlock() } }
    try ClientDescriptors.opened.reserve(1, for: client.user)
    let descriptor: Descriptor
    do throws(Errno) {
      descriptor =
        if let file = open.file { try Self.reopened(file, for: client) } else { try memoryFile(open.node) }
    } catch {
      ClientDescriptors.opened.release(1, of: client.user)
      throw error
    }
    let new = Description(descriptor, mayWrite: open.file?.mayWrite ?? true, countedFor: client.user)
    return records.withLock { records in
      // Two threads of a process may take a lock at the same time.
      var record = records[open.node]?[owner] ?? Record(description: new, handles: [])
      record.handles.insert(open.handle)
      records[open.node, default: [:]][owner] = record
      return record.description
    }
  }

  /// Opens a client's file once more, for writing only if the client has: that would break leases of others.
  private static func reopened(_ file: OpenFile, for client: Client) throws(Errno) -> Descriptor {
    func opened(_ flags: CInt) throws(Errno) -> Descriptor {
      do throws(Errno) { return try file.descriptor.opened(flags) } catch {
        // A server may refuse root what it permits the client.
        guard file.isOnServer, error == .permissionDenied || error == .notPermitted else { throw error }
        return try client.impersonate { () throws(Errno) in try file.descriptor.opened(flags) }
      }
    }
    if !file.mayWrite { return try opened(O_RDONLY) }
    do throws(Errno) { return try opened(O_RDWR) } catch {
      guard error == .permissionDenied else { throw error }
      return try opened(O_WRONLY)
    }
  }

  /// Opens the file in memory that stands for one with locks that hold in the mount alone. All owners of its locks share it.
  private func memoryFile(_ node: NodeID) throws(Errno) -> Descriptor {
    let known = records.withLock { records in records[node]?.values.first?.description }
    if let known { return try known.descriptor.opened(O_RDWR) }
    return Descriptor(adopting: try systemCall { dfs_memory_file("displayfs: locks") })
  }
}
