import BackingTree
import DisplayNames

/// A name in a directory of the view under which the kernel may hold a dentry that is stale.
package struct StaleName: Sendable {
  package let directory: NodeID
  package let name: Name
  /// Whether the dentry may be that of a directory. Such a dentry is expired, never invalidated: `d_invalidate` detaches
  /// whatever is mounted on a directory or below it, in every mount namespace, and makes getcwd(2) fail there.
  package let mayBeDirectory: Bool
  /// The node that the name led to, if that lives on under another name.
  package let node: NodeID?

  package init(_ name: Name, in directory: NodeID, mayBeDirectory: Bool, node: NodeID? = nil) {
    self.name = name
    self.directory = directory
    self.mayBeDirectory = mayBeDirectory
    self.node = node
  }
}

/// Invalidation of the kernel's caches: dentries, negative entries and attributes.
///
/// The kernel invalidates a name under the inode lock of its directory, which the request that is being served may hold. So
/// names are invalidated after the reply, by other threads. Expiring attributes takes no lock.
package protocol KernelCacheInvalidator: Sendable {
  /// Has the kernel look the names up again, soon.
  func invalidate(_ names: [StaleName])

  /// The same. In addition, a path walk through one of the directories that begins after this returns waits until the kernel
  /// has dropped the names, unless another process holds the directory's lock for long. Such a walk requests the attributes of
  /// each directory; they are expired before this returns, and the reply is deferred.
  func invalidateBeforeNextWalk(_ names: [StaleName])

  /// Has the kernel request a node's attributes again. Done when this returns if the kernel knows the node, otherwise soon.
  ///
  /// - Parameter directory: where the node is being looked up, if it is; nil when the kernel knows it.
  func expireAttributes(of node: NodeID, in directory: NodeID?)
}
