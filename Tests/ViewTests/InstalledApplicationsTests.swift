import BackingTree
import Glibc
import Testing
import ViewedTree

@testable import View

@Suite struct InstalledApplicationsTests {
  @Test func scan_withoutTimeLeft_readsNoList() throws {
    let tree = try ViewedTree()
    for name in ["Applications", "Applications/Notes.app", "Applications/Notes.app/Contents"] {
      mkdir(tree.path(name), 0o755)
    }
    let list = Array("{ CFBundleIdentifier = notes; }".utf8)
    let file = try Directory(descriptor: AT_FDCWD).open(
      tree.path("Applications/Notes.app/Contents/Info.plist"), O_CREAT | O_WRONLY, mode: 0o644)
    try list.withUnsafeBytes { try writeFully(file.rawValue, $0, at: 0) }
    let root = try Directory(descriptor: AT_FDCWD).open(tree.root, O_RDONLY | O_DIRECTORY)
    let directory = Directory(descriptor: root.rawValue)
    #expect(InstalledApplications.properties(below: directory).map(\.identifier) == ["notes"])
    #expect(InstalledApplications.properties(below: directory, within: .zero).isEmpty)
  }
}
