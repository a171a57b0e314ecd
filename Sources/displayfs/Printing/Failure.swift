import BackingTree

/// The exit statuses. They are those of mount(8) where these fit.
enum ExitStatus: Int32 {
  case success = 0
  /// Wrong arguments, or an operation that is not permitted.
  case usage = 1
  /// The machine lacks something: no /dev/fuse, no memory, no such file.
  case system = 2
  /// Mounting or unmounting failed.
  case mount = 32
}

/// An error message for the user: what happened, to which file, and what to do.
struct Failure: Error, CustomStringConvertible {
  let code: ExitStatus
  let description: String
  /// The mount that a daemon may have left when it failed.
  let mount: MountTable.Line?

  init(_ code: ExitStatus, _ description: String, mount: MountTable.Line? = nil) {
    self.code = code
    self.description = description
    self.mount = mount
  }
}
