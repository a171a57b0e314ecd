import Glibc

/// An error with its description.
struct Problem: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
  /// The error of the system call that has just failed.
  static func system(_ what: String) -> Problem { Problem("\(what): \(String(cString: strerror(errno)))") }
}

/// Writes to standard error, apart from the results.
func note(_ text: String) {
  let line = Array((text + "\n").utf8)
  _ = write(STDERR_FILENO, line, line.count)
}
