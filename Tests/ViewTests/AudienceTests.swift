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
    let directory = Directory(descriptor: opened.rawValue)
    #expect(audience.mayRead(Array("inside/names.strings".utf8), in: directory) == modes.isReadByAll)
  }

  /// It may deny one user what it permits to all others, and its mask looks like a right of the group.
  @Test(arguments: [
    (0o755, 0o644, "u:1:-", false), (0o750, 0o600, "u:1:r", false), (0o700, 0o600, "u:1:r", true),
  ])
  func fileWithAccessList_isNotReadByAll(directory: mode_t, file: mode_t, entry: String, isReadByAll: Bool)
    throws
  {
    let tree = try ViewedTree("names.strings")
    chmod(tree.path("names.strings"), file)
    try #require(system("setfacl -m \(entry) '\(tree.path("names.strings"))'") == 0)
    chmod(tree.root, directory)
    let opened = Descriptor(adopting: open(tree.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
    let audience = try #require(Audience(of: Directory(descriptor: opened.rawValue)))
    #expect(
      audience.mayRead(Array("names.strings".utf8), in: Directory(descriptor: opened.rawValue)) == isReadByAll
    )
  }
}
