import BackingTree
import CLinux
import Fuzzing
import Glibc
import SystemPackage
import Testing

@testable import PackageStream

/// Packages that change while a walk reads them.
@Suite(.serialized) struct PackageWalkTests {
  /// What a test does during a walk, with the number of the entry that the walk reads next.
  private nonisolated(unsafe) static var action: (Int) -> Void = { _ in }
  private nonisolated(unsafe) static var checks = 0

  /// Walks a package. Before each entry a walk checks whether its client is being killed: then `action` runs.
  private func layout(
    of package: Directory, mayChange: Bool = false, during action: @escaping (Int) -> Void
  ) throws -> PackageLayout {
    (Self.action, Self.checks) = (action, 0)
    dfs_request_begin(0) { _ in
      PackageWalkTests.checks += 1
      PackageWalkTests.action(PackageWalkTests.checks)
      return false
    }
    defer { dfs_request_end() }
    return try PackageLayout(of: package, type: bundleType, mayChange: mayChange)
  }

  /// A package of which a walk reads `z`, `b` and `a`, then what is in `a`, and then in `b`: three entries and `b/file`.
  private func package(_ file: String = "text") throws -> TemporaryTree {
    let temporary = try TemporaryTree()
    for name in ["a", "b", "z"] {
      let directory = try temporary.subdirectory(name)
      if name != "a" { try Directory(descriptor: directory.rawValue).write("file", file) }
    }
    return temporary
  }
  private static let inB = 4

  private func paths(_ layout: PackageLayout) -> [String] {
    (0..<layout.memberCount).map { String(decoding: layout.path($0), as: UTF8.self) }
  }

  /// The package's parts have changed just now, or three seconds ago.
  @Test(arguments: [0, 3_100_000] as [useconds_t])
  func fileMovedIntoDirectoryAlreadyRead_isInLayout(age: useconds_t) throws {
    let temporary = try package()
    usleep(age)
    let path = temporary.path
    let layout = try layout(of: temporary.directory) {
      if $0 == Self.inB { #expect(rename("\(path)/z/file", "\(path)/a/file") == 0) }
    }
    #expect(paths(layout) == ["a", "a/file", "b", "b/file", "z", ""])
    #expect(try layout.stamp == PackageStamp(of: temporary.directory))
  }

  @Test func directoryMovedIntoDirectoryAlreadyRead_isInLayout() throws {
    let temporary = try package()
    let path = temporary.path
    let layout = try layout(of: temporary.directory) {
      if $0 == Self.inB { #expect(rename("\(path)/z", "\(path)/a/z") == 0) }
    }
    #expect(paths(layout) == ["a", "a/z", "a/z/file", "b", "b/file", ""])
  }

  @Test func textMovedIntoEmptyFileAlreadyRead_isInLayout() throws {
    let temporary = try package()
    let opened = try temporary.subdirectory("a")
    let a = Directory(descriptor: opened.rawValue)
    try a.write("file", "")
    let path = temporary.path
    let layout = try layout(of: temporary.directory) {
      // Here `a/file` comes before what is in `b`.
      guard $0 == Self.inB + 1 else { return }
      try? a.write("file", "text")
      #expect(truncate("\(path)/z/file", 0) == 0)
    }
    let sizes = (0..<layout.memberCount).map { layout.entries[$0].size }
    #expect(sizes == [0, 4, 0, 4, 0, 0, 0])
  }

  @Test func entryRemovedAfterListing_isInNoLayout() throws {
    let temporary = try package()
    let path = temporary.path
    let layout = try layout(of: temporary.directory) {
      if $0 == 2 { #expect(shell("rm -r '\(path)/b'; touch '\(path)/a/new'") == 0) }
    }
    #expect(paths(layout) == ["a", "a/new", "z", "z/file", ""])
    #expect(try layout.stamp == PackageStamp(of: temporary.directory))
  }

  @Test func packageChangingDuringEveryAttempt_hasNoLayout() throws {
    let temporary = try package()
    let directory = temporary.directory
    #expect(throws: Errno.ioError) {
      _ = try layout(of: directory) { try? directory.write("new \($0)", "") }
    }
    #expect(Self.checks < 1000)
    #expect(try reader(temporary.directory).layout.memberCount > 6)
  }

  /// A program that goes on saving must not make the size unknown: an archiver would store an empty file.
  @Test func packageChangingMeanwhile_hasLayoutForItsSize() throws {
    let temporary = try package()
    let directory = temporary.directory
    let layout = try layout(of: directory, mayChange: true) {
      #expect(unlink("\(temporary.path)/b/file") == 0 || $0 > 1)
      try? directory.write("new \($0)", "")
    }
    #expect(!layout.isConsistent && layout.size > 1024)
    #expect(try reader(temporary.directory).layout.isConsistent)
  }

  // MARK: - Memory

  /// A file keeps its attributes once in the file system, whatever number of names it has.
  @Test func linksOfFileWithLongAttribute_takeNoMemoryForIt() throws {
    let temporary = try TemporaryTree()
    let directory = temporary.directory
    try directory.write("file", "text")
    try directory.setAttribute("file", "user.long", [UInt8](repeating: 0x61, count: 3900))
    for number in 0..<60_000 { try directory.link("file", to: directory, "\(number)") }
    let before = peakMemory(fresh: true)
    let layout = try PackageLayout(of: directory, type: bundleType)
    let memory = peakMemory() - before
    print("a package of 60 001 links took \(memory >> 10) MiB to walk")
    #expect(layout.memberCount == 60_002)
    #expect(memory < 100 << 10)
  }

  @Test func partsBeyondTheMemoryOfAWalk_areNotRead() throws {
    let temporary = try TemporaryTree()
    let directory = temporary.directory
    func walk() throws -> Int {
      var walk = try PackageWalk.finished(in: directory, omitting: [], memory: 100_000)
      return walk.takeEntries().count
    }
    try directory.write("file", "text")
    try directory.setAttribute("file", "user.long", [UInt8](repeating: 0x61, count: 3900))
    for number in 0..<300 { try directory.link("file", to: directory, "link \(number)") }
    #expect(try walk() == 302)
    // Too many attributes, and too many names.
    let opened = try temporary.subdirectory("files")
    let files = Directory(descriptor: opened.rawValue)
    for number in 0..<20 {
      try files.write("\(number)", "")
      try files.setAttribute("\(number)", "user.long", [UInt8](repeating: 0x61, count: 3900))
    }
    #expect(throws: Errno.noMemory) { _ = try walk() }
    try #require(shell("rm -r '\(temporary.path)/files'") == 0)
    for number in 300..<1500 { try directory.link("file", to: directory, "link \(number)") }
    #expect(throws: Errno.noMemory) { _ = try walk() }
  }
}
