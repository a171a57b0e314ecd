import BackingTree
import Glibc
import Testing

@testable import PackageStream

/// What other programs make of a stream.
@Suite struct ArchiverTests {
  struct Tool: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let command: @Sendable (_ stream: String, _ into: String) -> String
    let fidelity: Fidelity
  }

  static let tools = [
    Tool(
      testDescription: "GNU tar",
      command: { "tar --xattrs --xattrs-include='*' -xpf '\($0)' -C '\($1)' 2>/dev/null" }, fidelity: .exact),
    Tool(
      testDescription: "bsdtar",
      command: { "LC_ALL=C.UTF-8 bsdtar -xpf '\($0)' -C '\($1)'" }, fidelity: .exact),
    Tool(
      testDescription: "Python tarfile",
      command: {
        "LC_ALL=C.UTF-8 python3 -c 'import sys,tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], numeric_owner=True)' '\($0)' '\($1)'"
      }, fidelity: .python),
  ]

  @Test(arguments: tools) func otherArchivers_restoreStream(_ tool: Tool) throws {
    let temporary = try TemporaryTree()
    let package = try temporary.subdirectory("package")
    try makeOddPackage(in: Directory(descriptor: package.rawValue), exotic: tool.testDescription == "GNU tar")
    try reader(Directory(descriptor: package.rawValue)).save("stream", in: temporary.directory)
    let restored = try temporary.subdirectory("restored")
    #expect(shell(tool.command("\(temporary.path)/stream", "\(temporary.path)/restored")) == 0)
    try expectSame(
      Directory(descriptor: package.rawValue), Directory(descriptor: restored.rawValue), tool.fidelity)
  }
}
