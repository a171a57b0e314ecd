import Glibc
import Testing

/// A directory that lives as long as this object.
final class TemporaryDirectory {
  /// Its absolute path, without symlinks.
  let root: String

  init() throws {
    var template = Array("\(Shell.temporaryDirectory)/displayfs-test-XXXXXX".utf8CString)
    let made = mkdtemp(&template).flatMap { realpath($0, nil) }
    defer { free(made) }
    root = String(cString: try #require(made))
    // Ordinary users take part in some tests.
    chmod(root, 0o755)
  }

  deinit { _ = Shell.run(["rm", "-rf", "--one-file-system", root]) }

  func path(_ relative: String) -> String { "\(root)/\(relative)" }
}

/// Waits half a minute at most until something is so, however long it takes to look.
func eventually(_ condition: () throws -> Bool) rethrows -> Bool {
  let end = time(nil) + 30
  while try !condition() {
    if time(nil) > end { return false }
    usleep(10_000)
  }
  return true
}

/// Waits for what will become true, for as long as a machine with much to do may need.
func waitUntil(_ location: SourceLocation = #_sourceLocation, _ condition: () throws -> Bool) throws {
  if try eventually(condition) { return }
  Issue.record("what was waited for did not happen within 30 seconds", sourceLocation: location)
}
