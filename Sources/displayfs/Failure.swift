/// The exit statuses, those of mount(8) where they fit.
enum ExitStatus: Int32 {
  case success = 0
  /// Wrong arguments, or not allowed.
  case usage = 1
  /// The machine lacks something: no /dev/fuse, no memory, no such file.
  case system = 2
  /// The mount or unmount did not come about.
  case mount = 32
}

/// An error as the user reads it: what happened, to which file, and what to do.
struct Failure: Error, CustomStringConvertible {
  let code: ExitStatus
  let description: String

  init(_ code: ExitStatus, _ description: String) {
    self.code = code
    self.description = description
  }
}
