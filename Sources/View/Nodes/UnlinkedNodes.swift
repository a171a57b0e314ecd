import BackingTree
import Glibc
import SystemPackage

/// The last status of files whose name is gone, kept for as long as the kernel knows the files.
///
/// A client can have such a file open without a descriptor of the daemon: the kernel handles FIFOs, sockets, devices and O_PATH
/// descriptors itself. Yet fstat(2) on them sends a GETATTR.
final class UnlinkedNodes: Sendable {
  /// The state of a file before its name was removed.
  final class LastState: Sendable {
    /// The status before the removal.
    fileprivate let before: stat
    /// Holds the file itself (O_PATH). Nil for regular files: they would occupy disk space until FORGET arrives.
    fileprivate let descriptor: CInt?
    private let owned: Descriptor?

    fileprivate init(before: stat) {
      self.before = before
      descriptor = nil
      owned = nil
    }

    fileprivate init(before: stat, held: consuming Descriptor) {
      self.before = before
      descriptor = held.rawValue
      owned = consume held
    }
  }

  /// Above this limit the oldest entries are dropped, and their clients get ESTALE. FORGET arrives at once unless a file is open.
  private static let limit = 512
  private let states = Guarded(RecentlyUsed<LastState>())

  func insert(_ new: LastState, for id: NodeID) {
    states.discard { states -> (LastState?, [LastState]) in
      let replaced = states.insert(new, for: id)
      return (replaced, states.count > Self.limit ? states.removeOldest(Self.limit / 4) : [])
    }
  }

  /// The same, but drops no other entry for it.
  func insertIfRoom(_ new: LastState, for id: NodeID) {
    states.discard { $0.count < Self.limit ? $0.insert(new, for: id) : nil }
  }

  /// Called when a file that a client may have written is closed: from then on the recorded status may have to do, if there is one.
  func noteClosed(_ file: OpenFile) {
    guard let known = states.withLock({ $0[file.node] }), known.descriptor == nil,
      var status = try? fileStatus(file.descriptor.rawValue)
    else { return }
    status.st_nlink = known.before.st_nlink
    // Another thread may drop the entry meanwhile, and a node that the kernel has forgotten must not come back.
    states.discard { $0[file.node] == nil ? nil : $0.insert(LastState(before: status), for: file.node) }
  }

  func remove(_ id: NodeID) { states.discard { $0.remove(id) } }

  /// Closes all held files, because descriptors have run out or the disk is full. The recorded status has to do from then on.
  /// - Returns: whether any file was closed.
  func closeAll() -> Bool {
    let held = states.withLock { states in
      let held = states.all.filter { $0.value.descriptor != nil }
      for (id, left) in held { _ = states.insert(LastState(before: left.before), for: id) }
      return held
    }
    return !held.isEmpty
  }

  /// The current status of a node.
  func status(of id: NodeID) throws(Errno) -> stat {
    guard let left = states.withLock({ $0[id] }) else { throw .staleNFSFileHandle }
    if let file = left.descriptor {
      defer { withExtendedLifetime(left) {} }
      return try fileStatus(file)
    }
    var status = left.before
    status.st_nlink = status.st_nlink > 0 ? status.st_nlink - 1 : 0
    return status
  }

  /// A descriptor that refers to the node.
  func locate(_ id: NodeID) throws(Errno) -> Descriptor {
    guard let left = states.withLock({ $0[id] }), let file = left.descriptor else {
      throw .staleNFSFileHandle
    }
    defer { withExtendedLifetime(left) {} }
    return Descriptor(adopting: try systemCall { dup(file) })
  }
}

extension View {
  /// Called before an entry loses its name. - Returns: the state of the entry and its node; nil where the kernel does not know
  /// the entry. A node of another type belongs to a file that is gone and had the same inode number.
  func lastState(
    of name: UnsafePointer<CChar>, _ status: stat, in directory: DirectoryHandle
  ) -> (node: NodeID, state: UnlinkedNodes.LastState)? {
    guard let node = nodes.node(of: FileIdentity(status)),
      nodes.type(of: node) == FileType(mode: status.st_mode)
    else { return nil }
    guard mayHold(status, in: directory), let located = try? directory.locate(name),
      !DescriptorLimit.isReserved(located.rawValue), let now = try? fileStatus(located.rawValue),
      FileIdentity(now) == FileIdentity(status)
    else { return (node, UnlinkedNodes.LastState(before: status)) }
    return (node, UnlinkedNodes.LastState(before: status, held: located))
  }

  /// Whether a descriptor of a file may be kept while it loses its name.
  private func mayHold(_ status: stat, in directory: DirectoryHandle) -> Bool {
    switch FileType(mode: status.st_mode) {
    case .regular: return false
    case .directory: return true
    default:
      let isOfSource = UInt64(status.st_dev) == source.device
      let kind = isOfSource ? source.fileSystem : FileSystemKind(of: directory.directory.descriptor)
      return !kind.renamesRemovedFiles
    }
  }

  /// Called after the entry has lost its name.
  func keepLastState(_ left: (node: NodeID, state: UnlinkedNodes.LastState)?) {
    guard let (node, state) = left else { return }
    unlinkedNodes.insert(state, for: node)
    // The kernel may have sent FORGET meanwhile.
    if !nodes.hasIdentity(node, FileIdentity(state.before)) { unlinkedNodes.remove(node) }
  }

  /// Called when the kernel gets to know a special file, which may vanish in the backing tree while a client has it open.
  func noteSpecialFile(_ node: NodeID, _ status: stat) {
    unlinkedNodes.insertIfRoom(UnlinkedNodes.LastState(before: status), for: node)
  }
}
