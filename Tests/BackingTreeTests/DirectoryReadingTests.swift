import Glibc
import SystemPackage
import Testing

@testable import BackingTree

/// A directory of its own for one test, removed with everything in it afterwards.
struct TemporaryDirectory: ~Copyable {
  let path: String
  let descriptor: Descriptor
  var directory: Directory { Directory(descriptor: descriptor.rawValue) }

  init() throws {
    var template = Array("/tmp/displayfs-test-XXXXXX".utf8CString)
    path = String(cString: mkdtemp(&template))
    descriptor = Descriptor(adopting: open(path, O_RDONLY | O_DIRECTORY))
  }

  deinit {
    let status = removeTree(path)
    precondition(status == 0)
  }
}

private func removeTree(_ path: String) -> CInt {
  var child: pid_t = 0
  let words: [String] = ["rm", "-rf", "--", path]
  var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
  defer { for argument in arguments { free(argument) } }
  guard posix_spawnp(&child, "rm", nil, nil, &arguments, environ) == 0 else { return -1 }
  var status: CInt = 0
  waitpid(child, &status, 0)
  return status
}

@Suite struct DirectoryReadingTests {
  @Test func directoryRead_reportsEveryEntryOnceWithItsBytes() throws {
    let temporary = try TemporaryDirectory()
    let odd: [UInt8] = [0xff, 0xfe, 0x0a, 0x2e]
    var expected: Set<[UInt8]> = [odd]
    try odd.withCName { name throws in _ = try temporary.directory.open(name, O_CREAT | O_WRONLY, mode: 0o600)
    }
    for index in 0..<3000 {
      let name = Array("entry-\(index)".utf8)
      try name.withCName { name throws in
        try temporary.directory.makeNode(name, mode: S_IFREG | 0o600, device: 0)
      }
      expected.insert(name)
    }
    var seen: [[UInt8]] = []
    try forEachEntry(of: temporary.descriptor.rawValue) { entry in
      #expect(entry.type == .regular)
      seen.append(Array(entry.name))
    }
    #expect(seen.count == expected.count)
    #expect(Set(seen) == expected)
    let readable = try temporary.directory.openForReading()
    let ahead = DirectoryReadAhead(of: readable)!
    var seenAhead: [[UInt8]] = []
    try ahead.forEach { entry in seenAhead.append(Array(entry.name)) }
    #expect(seenAhead == seen)
  }

  @Test func reader_ofSmallDirectory_readsItAsAWhole() throws {
    let temporary = try TemporaryDirectory()
    for name in [".Hidden", "a", "b"] { try temporary.directory.makeNode(name, mode: S_IFREG, device: 0) }
    let readable = try temporary.directory.openForReading()
    var reader = DirectoryReader(of: readable.rawValue, size: 4096)
    let isWhole = try reader.readFirst()
    #expect(isWhole)
    // `.hidden` as in a directory that ignores case.
    let held = [reader.holds("a"), reader.holds(".hidden"), reader.holds("c"), reader.holds(".")]
    #expect(held == [true, true, false, false])
    #expect(names(&reader) == [".Hidden", "a", "b"])
  }

  @Test(arguments: [0, 1 << 20]) func reader_ofLargeDirectory_readsTheRestLater(size: Int) throws {
    let temporary = try TemporaryDirectory()
    // Of each length, so that a record of any length may be the first for which there is no room.
    let long = String(repeating: "n", count: 250)
    let expected = Set((0..<2000).map { "\($0)" + long.prefix($0 % 250) })
    for name in expected { try temporary.directory.makeNode(name, mode: S_IFREG, device: 0) }
    let readable = try temporary.directory.openForReading()
    var reader = DirectoryReader(of: readable.rawValue, size: size)
    let isWhole = try reader.readFirst()
    #expect(!isWhole)
    #expect(names(&reader) == expected)
    // It may also be read without the first step, or hand out what another thread reads.
    for isAhead in [false, true] {
      let again = try temporary.directory.openForReading()
      let ahead = isAhead ? DirectoryReadAhead(of: try temporary.directory.openForReading()) : nil
      var other = DirectoryReader(of: again.rawValue, size: size, ahead)
      let isWhole = try isAhead && other.readFirst()
      #expect(!isWhole)
      #expect(names(&other) == expected)
    }
  }

  /// The names that a reader passes on. A name that comes twice is an issue.
  private func names(_ reader: inout DirectoryReader) -> Set<String> {
    var names: Set<String> = []
    #expect(throws: Never.self) {
      try reader.readAll { entry in
        #expect(names.insert(String(decoding: entry.name, as: UTF8.self)).inserted)
      }
    }
    return names
  }

  @Test func readAhead_ofUnreadableDirectory_throwsItsError() throws {
    // An O_PATH descriptor cannot be read.
    let temporary = try TemporaryDirectory()
    let unreadable = try temporary.directory.subdirectory(".")
    let ahead = DirectoryReadAhead(of: unreadable)!
    #expect(throws: Errno.badFileDescriptor) { try ahead.forEach { _ in } }
    // A read-ahead may be dropped unused.
    _ = try DirectoryReadAhead(of: temporary.directory.openForReading())
  }

  @Test func subdirectoryAndSmallFile_neverFollowSymlinks() throws {
    let temporary = try TemporaryDirectory()
    try temporary.directory.makeSymlink("link", to: "/etc")
    #expect(throws: (any Error).self) { _ = try temporary.directory.subdirectory("link") }
    #expect(temporary.directory.smallFile("link/hostname", limit: 1 << 20) == nil)
    #expect(try temporary.directory.symlinkTarget("link") == Array("/etc".utf8))
  }

  @Test func smallFile_ofFifo_returnsNilWithoutBlocking() throws {
    let temporary = try TemporaryDirectory()
    try temporary.directory.makeNode("table", mode: S_IFIFO | 0o600, device: 0)
    #expect(temporary.directory.smallFile("table", limit: 1 << 20) == nil)
  }
}
