import BackingTree
import CFuse
import Glibc
import Testing
import ViewedTree

@testable import FuseServer
@testable import View

@Suite struct KnownFilesLimitTests {
  @Test func limit_isAnEighthOfTheMemory() {
    #expect(KnownFilesLimit.files(memory: 16 << 30) == (2 << 30) / 208)
    // A view needs some, however little memory there is.
    #expect(KnownFilesLimit.files(memory: 0) == 16384)
  }

  /// The kernel is requested to forget as many files as there are too many, each once; and no more when it forgets none, until
  /// there are more still.
  @Test func tooManyFiles_areRequestedToBeForgotten() throws {
    let tree = try ViewedTree("a", "b", "c")
    let kernel = try ScriptedKernel(tree.view)
    func lookUp(_ names: String...) throws {
      for name in names { _ = try name.withCString { try tree.view.lookup(NodeTable.root, $0) } }
    }
    let limit = KnownFilesLimit()
    limit.start(tree.view.nodes, kernel.session, most: 3)
    defer { limit.stop() }
    try lookUp("a", "b")
    #expect(kernel.message(milliseconds: 200) == nil)
    try lookUp("c")
    // fuse_out_header, fuse_notify_prune_out, nodeids
    let message = try #require(kernel.message())
    #expect(message.count == 16 + 16 + 8)
    func number(_ offset: Int) -> UInt32 {
      message.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: UInt32.self) }
    }
    #expect(number(0) == 40 && number(4) == 9 && number(16) == 1 && number(32) == 2)
    // It forgets nothing, so the others are requested too.
    #expect(kernel.message() != nil)
  }
}
