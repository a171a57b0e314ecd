import BackingTree
import CLinux
import Glibc
import SystemPackage

/// The file that a node stands for. The kernel sends the node, not the name that the client gave.
extension View {
  /// A descriptor that serves only to identify the node, checked to be of the right file.
  ///
  /// - Parameters:
  ///   - client: the client, for an operation that may have come by a name. The node must still have that name.
  ///   - isDataChanged: false for an operation that a client with the node open may have requested on its descriptor (fchmod(2),
  ///     futimens(2)): the kernel does not report which.
  /// - Throws: ESTALE when the name may lead to another file by now: the kernel walks the path again.
  func locate(
    _ id: NodeID, namedBy client: Client? = nil, isDataChanged: Bool = true
  ) throws(Errno) -> Descriptor {
    if id == NodeTable.root { return try source.root.directory.open(".", dfs_O_PATH) }
    let link = nodes.link(of: id)
    var inPlace: Descriptor?
    if let link {
      do throws(Errno) {
        let parent = try directory(link.parent)
        let found = try link.name.withPointer { (name) throws(Errno) in try parent.locate(name) }
        _ = try link.status(of: found)
        if client.map({ hasCurrentName(id, link, $0) }) ?? true { return found }
        inPlace = consume found
      } catch {
        if error != .noSuchFileOrDirectory, error != .staleNFSFileHandle, error != .notDirectory {
          throw error
        }
      }
    }
    // Refuse also a node that has no name any more: the kernel may still have a dentry that leads to it.
    if let client, isDataChanged || !mayReferToOpenFile(id, client),
      !walks.retries.isRetry(id, by: client.thread), link != nil || client.thread != 0
    {
      try refuse([id], client)
    }
    if let found = inPlace { return found }
    if let open = openNodes.file(of: id) {
      return Descriptor(adopting: try systemCall { dup(open.descriptor.rawValue) })
    }
    guard let handle = openHandle(of: id) else { return try unlinkedNodes.locate(id) }
    return Descriptor(adopting: try systemCall { dup(handle.directory.descriptor) })
  }

  /// Whether a client's request may refer to a file that it has open, rather than to a name. Where the client's system call
  /// cannot be seen, it may if the client's process has opened the node.
  func mayReferToOpenFile(_ id: NodeID, _ client: Client) -> Bool {
    switch dfs_reference_of(client.thread) {
    case DFS_BY_DESCRIPTOR: true
    case DFS_BY_NAME: false
    default: openNodes.isOpen(id, in: client)
    }
  }

  /// Whether a client that gave a name gave one that the node has: the node has lost no name that the kernel may still resolve.
  func hasCurrentName(_ id: NodeID, _ link: NodeTable.Link, _ client: Client) -> Bool {
    !hasLostOtherLink(id, link) && !mayHaveWalkedByOldName(id, client)
  }
}
