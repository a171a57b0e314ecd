@testable import View

/// A kernel that has cached nothing.
struct EmptyCache: KernelCacheInvalidator {
  func invalidate(_ names: [StaleName]) {}
  func invalidateBeforeNextWalk(_ names: [StaleName]) {}
  func expireAttributes(of node: NodeID, in directory: NodeID?) {}
}
