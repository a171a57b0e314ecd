import BackingTree
import Glibc
import PackageStream
import SystemPackage
import Testing
import ViewedTree

@testable import View

@Suite struct OpenLayoutsTests {
  private let tree: ViewedTree

  init() throws {
    tree = try ViewedTree()
    mkdir(tree.path("Letter.rtfd"), 0o755)
    tree.make("Letter.rtfd/TXT.rtf")
  }

  private func layout() throws -> PackageLayout {
    let package = Descriptor(
      adopting: try systemCall { open(tree.path("Letter.rtfd"), O_RDONLY | O_DIRECTORY) })
    return try PackageLayout(of: Directory(descriptor: package.rawValue), type: "com.apple.rtfd")
  }

  private func key(of user: uid_t) -> OpenLayouts.Key {
    let credentials = Credentials(user: user, group: 0, groups: [], umask: 0)
    return OpenLayouts.Key(FileIdentity(stat()), type: "com.apple.rtfd", omitting: [], credentials)
  }

  /// Times in the past: a package that is just changing may change without a new time.
  @Test func opensOfAnUnchangedPackage_shareOneLayout() throws {
    while try !layout().stamp.isSettled { usleep(100_000) }
    let layouts = OpenLayouts()
    let first = try layouts.share(layout(), for: key(of: 1), of: 1)
    let again = try layouts.share(layout(), for: key(of: 1), of: 1)
    #expect(again.layout === first.layout && layouts.memory(of: 1) == first.layout.memorySize)
    let other = try layouts.share(layout(), for: key(of: 2), of: 2)
    #expect(other.layout !== first.layout)
    tree.make("Letter.rtfd/Picture.png")
    let changed = try layouts.share(layout(), for: key(of: 1), of: 1)
    #expect(changed.layout !== first.layout && changed.layout.memberCount == 3)
    #expect(layouts.memory(of: 1) == first.layout.memorySize + changed.layout.memorySize)
  }

  @Test func layouts_whenTheyAreGone_areNotCounted() throws {
    let layouts = OpenLayouts()
    var held: [OpenLayouts.Use] = []
    for _ in 0..<3 { held.append(try layouts.share(layout(), for: key(of: 1), of: 1)) }
    let each = held[0].layout.memorySize
    #expect(each > 200 && layouts.memory(of: 1) == 3 * each && layouts.memory(of: 2) == 0)
    held.removeFirst()
    #expect(layouts.memory(of: 1) == 2 * each)
    held = []
    #expect(layouts.memory(of: 1) == 0)
  }

  @Test(arguments: [(0, 512 << 20, true), (256 << 20, 256 << 20, true), (256 << 20, 256 << 20 | 1, false)])
  func user_hasABoundForAllLayouts(own: Int, more: Int, isAllowed: Bool) {
    #expect(OpenLayouts.allows(own: own, more: more) == isAllowed)
  }
}
