import BackingTree
import DisplayNames

/// A name in a directory of the view under which the kernel may hold a dentry that is stale.
public struct StaleName: Sendable {
  public let directory: NodeID
  public let name: Name
  /// Whether the dentry may be that of a directory. Such a dentry is expired, never invalidated: `d_invalidate` detaches
  /// whatever is mounted on a directory or below it, in every mount namespace, and makes getcwd(2) fail there.
  public let mayBeDirectory: Bool
  /// The node that the name led to, if that lives on under another name.
  public let node: NodeID?

  public init(_ name: Name, in directory: NodeID, mayBeDirectory: Bool, node: NodeID? = nil) {
    self.name = name
    self.directory = directory
    self.mayBeDirectory = mayBeDirectory
    self.node = node
  }
}

/// What the daemon has the kernel drop from its caches: dentries, negative entries, attributes.
///
/// The kernel invalidates a name under the inode lock of its directory, which the request that is being served may hold:
/// so names are invalidated after the reply, by other threads. Attributes take no lock.
public protocol KernelCache: Sendable {
  /// Has names looked up again, soon.
  func invalidate(_ names: [StaleName])

  /// The same. In addition, a path walk through one of the directories that begins after this returns waits until the kernel
  /// has dropped the names, unless another program holds the directory's lock for long: such a walk asks for the attributes
  /// of each directory, which are expired before this returns, and the reply is deferred.
  func invalidateBeforeNextWalk(_ names: [StaleName])

  /// Has a node's attributes asked for again; done when this returns if the kernel knows the node, else soon.
  ///
  /// - Parameter directory: where the node is being looked up, if it is; nil when the kernel knows it.
  func expireAttributes(of node: NodeID, in directory: NodeID?)
}
