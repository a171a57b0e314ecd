import BackingTree
import DisplayNames
import Glibc
import Logging
import SystemPackage
import View

/// A temporary directory and the view of it, without a mount, for as long as this object lives.
public final class ViewedTree: Sendable {
  public let root: String
  package let view: View

  /// - Parameter files: empty ones to begin with.
  public init(
    _ files: String..., options: ViewOptions = ViewOptions(), logger: Logger = Logger(label: "test")
  ) throws {
    var template = Array("/tmp/displayfs-test-XXXXXX".utf8CString)
    guard let made = mkdtemp(&template) else { throw Errno(rawValue: errno) }
    let root = String(cString: made)
    self.root = root
    for file in files { Self.make(file, in: root) }
    let source = Descriptor(adopting: try systemCall { open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC) })
    view = try View(source: source, options: options, logger: logger)
  }

  deinit { _ = system("rm -rf --one-file-system '\(root)'") }

  public func path(_ name: String) -> String { "\(root)/\(name)" }

  /// Makes an empty file.
  public func make(_ name: String) { Self.make(name, in: root) }

  private static func make(_ name: String, in root: String) {
    close(open("\(root)/\(name)", O_WRONLY | O_CREAT, 0o644))
  }
}
