import BackingTree
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

extension View {
  /// The stream of a package in the top directory.
  func stream(ofPackage name: String) throws -> [UInt8] {
    let entry = try name.withCString { (name) throws(Errno) in try lookup(NodeTable.root, name) }
    guard case .package(let package) = try open(node: entry.id, flags: O_RDONLY, client: .daemon) else {
      throw Errno.notSupported
    }
    var stream = [UInt8](repeating: 0, count: Int(package.size))
    let count = try stream.withUnsafeMutableBytes { try package.read(into: $0, at: 0) }
    return Array(stream[..<count])
  }
}

@Suite struct ImportedStreamsTests {
  /// A view with the file of a package's stream that has become a package, and is still open.
  private func withImport(_ body: (View, OpenFile) throws -> Void) throws {
    let tree = try ViewedTree()
    let view = tree.view
    #expect(mkdir(tree.path("Letter.rtfd"), 0o755) == 0)
    tree.make("Letter.rtfd/TXT.rtf")
    // Its directory is removed at the end.
    defer { withExtendedLifetime(tree) {} }
    let stream = try view.stream(ofPackage: "Letter")
    let copy = try "Copy".withCString { (name) throws(Errno) in
      try view.create(NodeTable.root, name, mode: 0o644, flags: O_RDWR | O_CREAT, client: .daemon)
    }
    defer { view.close(copy.file) }
    #expect(write(copy.file.descriptor.rawValue, stream, stream.count) == stream.count)
    view.closing(copy.file, client: .daemon)
    try #require(view.packages.imported.contains(copy.file.node))
    try body(view, copy.file)
  }

  /// The kernel has forgotten the directory by the time that the last writer closes the stream, and another one has its number.
  @Test func streamWrittenOn_comesBackToItsDirectory_notToThatWithItsNumber() throws {
    let tree = try ViewedTree()
    let view = tree.view
    for name in ["Letter.rtfd", "old", "new"] { #expect(mkdir(tree.path(name), 0o755) == 0) }
    tree.make("Letter.rtfd/TXT.rtf")
    defer { withExtendedLifetime(tree) {} }
    let stream = try view.stream(ofPackage: "Letter")
    func lookup(_ name: String) throws -> Entry {
      try name.withCString { (name) throws(Errno) in try view.lookup(NodeTable.root, name) }
    }
    let old = try lookup("old").id
    let (node, writer) = try importing(stream, in: old, view)
    view.finishImport(node)
    #expect(isThere(tree.path("old/Copy.rtfd")))
    view.forget(node, count: 1)
    view.forget(old, count: 1)
    try #require(try lookup("new").id == old)
    #expect(write(writer, "more", 4) == 4)
    close(writer)
    for _ in 0..<200 where !isThere(tree.path("old/Copy")) || isThere(tree.path("old/Copy.rtfd")) {
      usleep(50_000)
    }
    #expect(isThere(tree.path("old/Copy")) && !isThere(tree.path("old/Copy.rtfd")))
    #expect(!isThere(tree.path("new/Copy")))
  }

  /// Has a stream become a package, and closes it.
  ///
  /// - Returns: its node, and a descriptor by which it can still be written.
  private func importing(_ stream: [UInt8], in parent: NodeID, _ view: View) throws -> (NodeID, CInt) {
    let copy = try "Copy".withCString { (name) throws(Errno) in
      try view.create(parent, name, mode: 0o644, flags: O_RDWR | O_CREAT, client: .daemon)
    }
    let writer = open("/proc/self/fd/\(copy.file.descriptor.rawValue)", O_WRONLY | O_APPEND)
    #expect(write(copy.file.descriptor.rawValue, stream, stream.count) == stream.count)
    view.closing(copy.file, client: .daemon)
    try #require(view.packages.imported.contains(copy.file.node))
    view.close(copy.file)
    return (copy.file.node, writer)
  }

  private func isThere(_ path: String) -> Bool { access(path, F_OK) == 0 }

  /// It looks at a file, and the file system of that file may not reply.
  @Test func closeThatLooksAtItsStream_blocksNoOther() throws {
    try withImport { view, file in
      let imported = view.packages.imported
      let passed = Semaphore()
      var haveOthersPassed = false
      let taken = imported.take(file.node) { _ in
        Thread {
          _ = imported.contains(file.node)
          passed.post()
        }?.detach()
        haveOthersPassed = passed.wait(milliseconds: 20_000)
        return false
      }
      #expect(taken == nil && haveOthersPassed)
      #expect(imported.take(file.node) != nil && imported.take(file.node) == nil)
    }
  }

  /// A file of a package's stream with a shared mapping of it, and the place of a text in the stream.
  private struct MappedStream {
    let file: OpenFile
    let text: UnsafeMutableRawPointer
    private let start: UnsafeMutableRawPointer
    private let size: Int

    init(_ stream: [UInt8], text: String, in view: View) throws {
      file = try "Copy".withCString { (name) throws(Errno) in
        try view.create(NodeTable.root, name, mode: 0o644, flags: O_RDWR | O_CREAT, client: .daemon)
      }.file
      size = stream.count
      let descriptor = file.descriptor.rawValue
      #expect(write(descriptor, stream, size) == size && fsync(descriptor) == 0)
      start = try #require(mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0))
      let place = stream.indices.first { stream[$0...].starts(with: text.utf8) }
      self.text = start + (try #require(place))
    }

    func store(_ new: String) { new.withCString { _ = memcpy(text, $0, strlen($0)) } }

    func unmap() { munmap(start, size) }
  }

  private static let temporaryFilesHaveTimesOfMappedWrites = {
    let directory = Descriptor(adopting: open("/tmp", O_RDONLY | O_DIRECTORY))
    return FileSystemKind(of: directory.rawValue).updatesTimesOfMappedWrites
  }()

  /// The kernel changes no time where the page has been dirty since before the stream was checked.
  @Test(.enabled(if: temporaryFilesHaveTimesOfMappedWrites))
  func storeThroughMapping_whileStreamIsUnpacked_isKept() throws {
    let tree = try ViewedTree()
    let view = tree.view
    #expect(mkdir(tree.path("Letter.rtfd"), 0o755) == 0)
    #expect(system("printf text. >'\(tree.path("Letter.rtfd/a"))'") == 0)
    #expect(system("head -c 100M /dev/zero | tr '\\0' x >'\(tree.path("Letter.rtfd/b"))'") == 0)
    let stream = try view.stream(ofPackage: "Letter")
    let mapped = try MappedStream(stream, text: "text.", in: view)
    mapped.store("first")
    let staging = tree.path(".displayfs-staging")
    let stored = Semaphore()
    struct Sent: @unchecked Sendable { let mapped: MappedStream }
    let sent = Sent(mapped: mapped)
    Thread {
      // The first of two parts is there, and the stream is not synchronized to disk yet.
      while system("ls '\(staging)'/*/a >/dev/null 2>&1") != 0 {}
      sent.mapped.store("later")
      stored.post()
    }?.detach()
    view.closing(mapped.file, client: .daemon)
    #expect(stored.wait(milliseconds: 20_000))
    mapped.unmap()
    view.close(mapped.file)
    view.finishImport(mapped.file.node)
    #expect(
      system(
        "grep -q later '\(tree.path("Copy"))' || grep -q later '\(tree.path("Copy.rtfd/a"))' 2>/dev/null")
        == 0)
  }

  @Test(.enabled(if: temporaryFilesHaveTimesOfMappedWrites))
  func settledState_isAlteredByNextStoreThroughMapping() throws {
    let tree = try ViewedTree()
    defer { withExtendedLifetime(tree) {} }
    let mapped = try MappedStream(Array("text".utf8), text: "text", in: tree.view)
    defer {
      mapped.unmap()
      tree.view.close(mapped.file)
    }
    for number in 0..<100 {
      mapped.store("\(number)")
      let state = try #require(try StreamState(settled: mapped.file.descriptor))
      mapped.store("\(number)")
      #expect(StreamState(try fileStatus(mapped.file.descriptor.rawValue)) != state)
    }
  }

  @Test func streamRefusedOnce_isCheckedAgainOnlyIfItDiffers() {
    var status = stat()
    status.st_size = 4096
    let state = StreamState(status)
    let streams = ImportedStreams()
    #expect(!streams.wasRefused(7, state))
    #expect(streams.noteRefused(7, checked: nil))
    #expect(!streams.wasRefused(7, state))
    #expect(!streams.noteRefused(7, checked: state))
    #expect(streams.wasRefused(7, state) && !streams.wasRefused(8, state))
    // `cp -p` of another stream.
    status.st_ctim.tv_sec = 5
    #expect(!streams.wasRefused(7, StreamState(status)))
    status.st_size = 8192
    #expect(!streams.wasRefused(7, StreamState(status)))
    clock_gettime(CLOCK_REALTIME, &status.st_ctim)
    // Another write may leave the same times.
    _ = streams.noteRefused(7, checked: StreamState(status))
    #expect(!streams.wasRefused(7, StreamState(status)))
    streams.remove(7)
    #expect(!streams.wasRefused(7, state))
  }
}
