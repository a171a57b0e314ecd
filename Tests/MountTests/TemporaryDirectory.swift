import Glibc
import Testing

/// A directory that lives as long as this object.
final class TemporaryDirectory {
  /// Its absolute path, without symlinks.
  let root: String

  init(in place: String = Shell.temporaryDirectory) throws {
    var template = Array("\(place)/displayfs-test-XXXXXX".utf8CString)
    let made = mkdtemp(&template).flatMap { realpath($0, nil) }
    defer { free(made) }
    root = String(cString: try #require(made))
    // Ordinary users take part in some tests.
    chmod(root, 0o755)
  }

  deinit { _ = Shell.run(["rm", "-rf", "--one-file-system", root]) }

  func path(_ relative: String) -> String { "\(root)/\(relative)" }
}
