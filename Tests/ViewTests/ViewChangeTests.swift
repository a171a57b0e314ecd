import BackingTree
import DisplayNames
import Testing

@testable import View

@Suite struct ViewChangeTests {
  private func item(_ name: Name, in directory: NodeID, inode: UInt64 = 0) -> ListingEntry {
    ListingEntry(
      directory: directory, name: name, realName: name, identity: FileIdentity(device: 1, inode: inode),
      nodeKind: .plain, type: inode == 0 ? .regular : .directory)
  }

  @Test func endOfDirectory_followsWhatVanishedFromIt() {
    let outer = ViewChange.vanished(item("outer", in: 1, inode: 2))
    let inner = ViewChange.vanished(item("inner", in: 2, inode: 3))
    let files = (0..<3).map { ViewChange.vanished(item(Name("\($0)"), in: 3)) }
    let beside = ViewChange.appeared(item("beside", in: 1))
    func ordered(_ changes: [ViewChange]) -> [ViewChange] {
      ViewChange.endingDirectoriesLast(changes) {
        $0.type == .directory ? NodeID(UInt32($0.identity.inode)) : nil
      }
    }
    #expect(ordered([outer, beside, inner] + files) == files + [inner, outer, beside])
    #expect(ordered([files[0], inner, files[1], outer, files[2]]) == files + [inner, outer])
    #expect(ordered([beside] + files) == [beside] + files)
    #expect(ordered([]) == [])
  }
}
