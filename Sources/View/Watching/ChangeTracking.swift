import BackingTree

/// How changes of the backing tree are noticed, and the view's own distinguished from those of other processes.
struct ChangeTracking: Sendable {
  /// Nil where nothing can be watched.
  let watch: ChangeWatch?
  let queue: ChangeQueue
  let own: OwnChanges
}
