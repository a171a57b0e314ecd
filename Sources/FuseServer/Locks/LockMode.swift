import BackingTree

/// Where the locks are kept that clients take on files. (flock(2), fcntl(2))
package enum LockMode: String, CaseIterable, Sendable {
  /// `backing` if other machines or a server may lock the files too, else `local`.
  case auto
  /// In the kernel, for the mount alone. Costs nothing.
  case local
  /// In the backing tree. Costs a request for each lock, and one for each close of a file.
  case backing

  /// Whether locks are passed to the backing tree.
  func passesLocks(on fileSystem: FileSystemKind) -> Bool {
    switch self {
    case .auto: fileSystem.mayChangeUnseen && !fileSystem.hasMandatoryLocks
    case .local: false
    case .backing: true
    }
  }
}
