import BackingTree
import Glibc
import Testing
import ViewedTree

@testable import View

/// Which users see a name decides whether it may be text from a file.
@Suite struct AudienceTests {
  struct Case: CustomTestStringConvertible {
    let directory: mode_t
    let inside: mode_t
    let file: mode_t
    let isReadByAll: Bool

    init(_ directory: mode_t, _ inside: mode_t, _ file: mode_t, _ isReadByAll: Bool) {
      (self.directory, self.inside, self.file) = (directory, inside, file)
      self.isReadByAll = isReadByAll
    }

    var testDescription: String {
      [directory, inside, file].map { String($0, radix: 8) }.joined(separator: " ")
    }
  }

  @Test(arguments: [
    Case(0o755, 0o755, 0o644, true),
    Case(0o755, 0o711, 0o644, true),
    Case(0o755, 0o755, 0o640, false),
    Case(0o755, 0o755, 0o604, false),
    Case(0o755, 0o700, 0o644, false),
    // Its names can be looked up, but not listed.
    Case(0o711, 0o755, 0o600, false),
    Case(0o750, 0o750, 0o640, true),
    Case(0o750, 0o750, 0o600, false),
    Case(0o750, 0o700, 0o640, false),
    Case(0o700, 0o700, 0o600, true),
  ])
  func file_isReadByAll_whoSeeTheName(modes: Case) throws {
    let tree = try ViewedTree()
    let inside = tree.path("inside")
    try #require(mkdir(inside, 0o755) == 0)
    defer {
      unlink("\(inside)/names.strings")
      rmdir(inside)
    }
    tree.make("inside/names.strings")
    chmod("\(inside)/names.strings", modes.file)
    chmod(inside, modes.inside)
    chmod(tree.root, modes.directory)
    let opened = Descriptor(adopting: open(tree.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
    let audience = try #require(Audience(of: Directory(descriptor: opened.rawValue)))
    #expect(audience.mayRead(Array("inside/names.strings".utf8)) == modes.isReadByAll)
  }
}
