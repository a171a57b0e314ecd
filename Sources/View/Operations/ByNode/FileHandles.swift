import BackingTree
import CLinux
import DisplayNames
import Glibc
import SystemPackage

/// Files of an exported view by their file handles, which are nodeids. The kernel sends a LOOKUP of `.` for a node that it has
/// forgotten, or that it got from an earlier daemon, and a LOOKUP of `..` for the parent of a directory. (exportfs)
extension View {
  /// Whether file handles of the view last.
  package var isExported: Bool { source.handles != nil }

  /// The nodeid of an entry in an exported view; nil for one that has none that lasts.
  ///
  /// - Parameter name: the real name; empty for the file that `directory` is a descriptor of.
  func durableNodeID(
    of name: UnsafePointer<CChar>, in directory: Directory, _ status: stat, _ nodeKind: NodeKind
  ) -> DurableNodeID? {
    guard let handles = source.handles, UInt64(status.st_dev) == source.device,
      let handle = try? handles.handle(of: name, in: directory), handle.inode == UInt64(status.st_ino),
      let generation = handle.generation
    else { return nil }
    return DurableNodeID(inode: handle.inode, generation: generation, nodeKind: nodeKind)
  }

  /// The entry of a file by its nodeid. The nlookup of its node rises by one.
  ///
  /// The file's path is only looked for here. Whether it is part of the view is decided by looking up each name of it as any
  /// client would, and whether it is that file by the nodeid that this gives.
  ///
  /// - Throws: ESTALE where the file is gone, or is not part of the view.
  package func reopen(_ nodeid: UInt64) throws(Errno) -> Entry {
    let durable = DurableNodeID(rawValue: nodeid)
    guard let handles = source.handles, let nodeKind = durable.nodeKind else { throw .staleNFSFileHandle }
    let handle = InodeHandle(inode: durable.inode, generation: durable.generation)
    let file: Descriptor
    do throws(Errno) { file = try handles.open(handle) } catch { throw .staleNFSFileHandle }
    let status = try fileStatus(file.rawValue)
    // A removed file, which some process has open still.
    guard status.st_nlink > 0 else { throw .staleNFSFileHandle }
    func entry(at names: [Name]?) -> Entry? {
      guard let names, let entry = try? self.entry(at: names, nodeKind) else { return nil }
      if entry.nodeid == nodeid { return entry }
      forget(entry.id, count: 1)
      return nil
    }
    func entry(in directory: DurableNodeID) -> Entry? {
      entry(at: try? names(of: durable.inode, in: directory, handles))
    }
    if let entry = entry(at: names(of: file)) { return entry }
    // The kernel knows the path of a directory at any time, and that of another file while it has its name cached.
    guard FileType(mode: status.st_mode) != .directory else { throw .staleNFSFileHandle }
    if let entry = nodes.lastDirectory(of: durable.inode).flatMap(entry(in:)) { return entry }
    let directories = try source.search.directories(
      of: durable, below: source.root.directory, handles, nodes)
    guard let entry = directories.lazy.compactMap(entry(in:)).first else { throw .staleNFSFileHandle }
    return entry
  }

  /// The entry of the directory that a directory is in. The nlookup of its node rises by one.
  package func parentEntry(of id: NodeID) throws(Errno) -> Entry {
    guard let parent = nodes.link(of: id)?.parent else { throw .staleNFSFileHandle }
    let attributes = try attributes(parent)
    guard let node = nodes.lookUp(parent) else { throw .staleNFSFileHandle }
    return Entry(node, attributes)
  }

  /// Whether a client came by a file handle, and not by a name.
  package func cameByHandle(_ client: Client) -> Bool { dfs_comes_by_handle(client.thread) }

  /// Whether the name of a node is still that of the file with that nodeid. True for a node without a name.
  package func isCurrent(_ id: NodeID, _ nodeid: UInt64) -> Bool {
    guard let handles = source.handles, id != NodeTable.root, let link = nodes.link(of: id),
      DurableNodeID(rawValue: nodeid).nodeKind != nil, let parent = try? directory(link.parent),
      let handle = try? link.name.withPointer({ (name) throws(Errno) in
        try handles.handle(of: name, in: parent.directory)
      }), let generation = handle.generation
    else { return true }
    return DurableNodeID(inode: handle.inode, generation: generation, nodeKind: link.nodeKind)?.rawValue
      == nodeid
  }

  /// Finds the file of a node that was moved in the backing tree, for a client that came by a file handle.
  ///
  /// - Returns: whether the node leads to its file again.
  package func follow(_ id: NodeID, _ nodeid: UInt64, for client: Client) -> Bool {
    guard let entry = try? reopen(nodeid) else { return false }
    defer { forget(entry.id, count: 1) }
    walks.moved.noteLookup(of: id, by: client.thread, isByHandle: true)
    return entry.id == id
  }

  /// Looks up a path by real names; its last name by the display name where a package is shown as a file.
  private func entry(at names: [Name], _ nodeKind: NodeKind) throws(Errno) -> Entry {
    guard let last = names.last else { throw .staleNFSFileHandle }
    var held: [NodeID] = []
    defer { for id in held { forget(id, count: 1) } }
    var parent = NodeTable.root
    for name in names.dropLast() {
      let entry = try CName(name).withPointer { (name) throws(Errno) in try lookup(parent, name) }
      held.append(entry.id)
      parent = entry.id
    }
    var name = last
    if nodeKind == .packageFile {
      let view = try directoryView(parent)
      name = try view.withCurrent { (projection) throws(Errno) in
        guard let slot = projection.slot(realName: last.bytes.span) else { throw .staleNFSFileHandle }
        return projection.displayName(at: slot)
      }
    }
    return try CName(name).withPointer { (name) throws(Errno) in try lookup(parent, name) }
  }

  /// The path of an open file, as the kernel knows it.
  private func names(of file: borrowing Descriptor) -> [Name]? {
    guard let path = FilePath(ofOpenFile: file.rawValue), let top = source.path else { return nil }
    return path.names(below: top)?.map(Name.init)
  }

  /// The path of a file by the directory that it is in.
  private func names(
    of inode: UInt64, in directory: DurableNodeID, _ handles: InodeHandles
  ) throws(Errno) -> [Name] {
    var names: [Name] = []
    let opened: Descriptor
    if directory.rawValue == 1 {
      opened = try source.root.directory.openForReading()
    } else {
      let located = try handles.open(InodeHandle(inode: directory.inode, generation: directory.generation))
      guard let path = self.names(of: located) else { throw .staleNFSFileHandle }
      names = path
      opened = try Directory(descriptor: located.rawValue).openForReading()
    }
    var found: Name?
    try forEachEntryWithPosition(of: opened.rawValue) { (entry, _) in
      if entry.inode == inode { found = Name(Array(entry.name)) }
      return found == nil
    }
    guard let found else { throw .staleNFSFileHandle }
    return names + [found]
  }
}
