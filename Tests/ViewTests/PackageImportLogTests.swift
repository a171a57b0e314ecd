import BackingTree
import Glibc
import Logging
import SystemPackage
import Testing
import ViewedTree

@testable import View

@Suite struct PackageImportLogTests {
  private struct Recorder: LogHandler {
    let messages = Guarded<[String]>([])
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.notice

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { messages.withLock { $0.append("\(event.message)") } }
  }

  @Test func copyOfAPackage_closedSeveralTimesWhileItIsWritten_isReportedOnce() throws {
    let recorder = Recorder()
    let tree = try ViewedTree(logger: Logger(label: "test") { _ in recorder })
    let view = tree.view
    #expect(mkdir(tree.path("Letter.rtfd"), 0o755) == 0)
    tree.make("Letter.rtfd/TXT.rtf")
    defer { for name in ["Letter.rtfd/TXT.rtf", "Letter.rtfd"] { _ = remove(tree.path(name)) } }
    let stream = try view.stream(ofPackage: "Letter")
    let part = stream.dropLast(1024)
    let copy = try "Copy".withCString { (name) throws(Errno) in
      try view.create(NodeTable.root, name, mode: 0o644, flags: O_RDWR | O_CREAT, client: .daemon)
    }
    defer { view.close(copy.file) }
    #expect(
      part.withUnsafeBytes { write(copy.file.descriptor.rawValue, $0.baseAddress, $0.count) } == part.count)
    for _ in 0..<3 { view.closing(copy.file, client: .daemon) }
    #expect(recorder.messages.withLock { $0.filter { $0.contains("stays a file") } }.count == 1)
  }
}
