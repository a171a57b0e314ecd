import BackingTree
import Glibc
import SystemPackage
import Testing

@testable import PackageStream

@Suite struct PackageReaderTests {
  @Test func readAtAnyOffset_givesSameBytes() throws {
    let temporary = try TemporaryTree()
    try makeOddPackage(in: temporary.directory)
    let reader = try reader(temporary.directory)
    let all = try reader.allBytes()
    #expect(Int64(all.count) == reader.layout.size)
    #expect(all.count % 512 == 0)
    #expect(all.suffix(1024).allSatisfy { $0 == 0 })
    var random = SystemRandomNumberGenerator()
    for _ in 0..<3000 {
      let start = Int64.random(in: 0...reader.layout.size, using: &random)
      let count = Int64.random(in: 0...9000, using: &random)
      let expected = Array(all[Int(start)..<min(Int(start + count), all.count)])
      #expect(try reader.bytes(start..<(start + count)) == expected, "at \(start), \(count) bytes")
    }
    #expect(try reader.bytes(reader.layout.size..<(reader.layout.size + 10)).isEmpty)
    #expect(throws: Errno.invalidArgument) { try reader.bytes(-1..<10) }
  }

  @Test func startOfStream_namesPackageType() throws {
    let temporary = try TemporaryTree()
    let start = try reader(temporary.directory).bytes(0..<1024)
    #expect(start[257...].starts(with: "ustar".utf8))
    #expect(start[515...].starts(with: "comment=displayfs:com.apple.application-bundle\n".utf8))
    for type in ["", "a b", "a\nb", "x\u{0}", String(repeating: "a", count: 256)] {
      #expect(throws: Errno.invalidArgument) { _ = try PackageLayout(of: temporary.directory, type: type) }
    }
  }

  @Test func unchangedPackage_givesSameBytesAndStamp() throws {
    let temporary = try TemporaryTree()
    try makeOddPackage(in: temporary.directory)
    let first = try reader(temporary.directory)
    let second = try reader(temporary.directory)
    #expect(try first.allBytes() == second.allBytes())
    #expect(first.layout.stamp == second.layout.stamp)
    #expect(try PackageStamp(of: temporary.directory) == first.layout.stamp)
  }

  @Test func stamp_afterEveryChange_differs() throws {
    let temporary = try TemporaryTree()
    try makeOddPackage(in: temporary.directory)
    var seen: Set<PackageStamp> = [try PackageStamp(of: temporary.directory)]
    let changes: [String] = [
      "echo more >> Contents/dense", "touch Contents/new", "mv Contents/new Contents/newer",
      "rm Contents/newer",
      "chmod 0644 Contents/empty", "setfattr -n user.more -v x Contents/dense",
      "ln Contents/dense Contents/copy",
      "touch -d 2001-01-01 'Contents/empty directory'", "ln -sfn elsewhere Contents/short",
    ]
    for change in changes {
      usleep(20_000)
      try #require(shell("cd '\(temporary.path)' && \(change)") == 0)
      #expect(seen.insert(try PackageStamp(of: temporary.directory)).inserted, "\(change)")
    }
    let last = try PackageStamp(of: temporary.directory)
    #expect(!last.isSettled)
  }

  @Test(arguments: [
    "echo other > file", "printf same > file", "echo longer >> file", "truncate -s 1 file", "rm file",
    "mv other file", "rm file && mkfifo file", "rm file && ln -s other file", "chmod 0600 file",
    "touch -d 2001-01-01 file",
  ])
  func package_changedWhileRead_failsWithEIO(_ change: String) throws {
    for isOpen in [false, true] {
      let temporary = try TemporaryTree()
      try temporary.directory.write("file", String(repeating: "same", count: 5000))
      try temporary.directory.write("other", String(repeating: "same", count: 5000))
      let reader = try reader(temporary.directory)
      if isOpen { _ = try reader.allBytes() }
      usleep(20_000)
      try #require(shell("cd '\(temporary.path)' && \(change)") == 0)
      #expect(throws: Errno.ioError, "open: \(isOpen)") { try reader.allBytes() }
      #expect(throws: Never.self) { try reader.bytes(0..<1024) }
    }
  }

  /// As nothing in the stream depends on data that is not read, a part can be read while one before it has changed.
  @Test func headerAfterFile_isReadWithoutThatFile() throws {
    let temporary = try TemporaryTree()
    try temporary.directory.write("a", "some data")
    try temporary.directory.write("b", "other data")
    let reader = try reader(temporary.directory)
    let all = try reader.allBytes()
    let fresh = try PackageStreamTests.reader(temporary.directory)
    try #require(shell("rm '\(temporary.path)/a'") == 0)
    let rest = fresh.layout.entries[1].offset..<fresh.layout.size
    #expect(try fresh.bytes(rest) == Array(all[Int(rest.lowerBound)...]))
    #expect(throws: Errno.ioError) { try fresh.allBytes() }
  }

  @Test func sparseFile_takesSpaceOfItsData() throws {
    let temporary = try TemporaryTree()
    let file = try temporary.directory.open("disk image", O_CREAT | O_RDWR, mode: 0o644)
    try setSize(file.rawValue, 20 << 30)
    try [UInt8](repeating: 1, count: 4096).withUnsafeBytes { try writeFully(file.rawValue, $0, at: 10 << 30) }
    let reader = try reader(temporary.directory)
    #expect(reader.layout.size < 16384)
    let all = try reader.allBytes()
    #expect(all.count(where: { $0 == 1 }) == 4096)
  }

  @Test func memberBeyondEightGigabytes_isRead() throws {
    let temporary = try TemporaryTree()
    let package = try temporary.subdirectory("package")
    let inside = Directory(descriptor: package.rawValue)
    let file = try inside.open("large", O_CREAT | O_RDWR, mode: 0o644)
    try #require(shell("fallocate -l 9G '\(temporary.path)/package/large'") == 0)
    try [UInt8(9)].withUnsafeBytes { try writeFully(file.rawValue, $0, at: (9 << 30) - 1) }
    try inside.write("next", "after it")
    let reader = try reader(inside)
    #expect(reader.layout.size > 9 << 30)
    let head = reader.layout.entries[0].headLength
    #expect(try reader.bytes(1024 + Int64(head) + (9 << 30) - 2..<1024 + Int64(head) + (9 << 30)) == [0, 9])
    // The stream with a hole for the large file's data.
    let stream = try temporary.directory.open("stream", O_CREAT | O_WRONLY, mode: 0o644)
    let tail = reader.layout.entries[1].offset
    for range in [0..<1024 + Int64(head), tail..<reader.layout.size] {
      try reader.bytes(range).withUnsafeBytes { try writeFully(stream.rawValue, $0, at: range.lowerBound) }
    }
    for tool in ["tar", "bsdtar"] {
      let list =
        "\(tool) -tvf '\(temporary.path)/stream' | grep -c -e ' 9663676416 .*/large$' -e '8 .*/next$' | grep -qx 2"
      #expect(shell(list) == 0, "\(tool)")
    }
  }

  @Test func deepTree_isRead() throws {
    let temporary = try TemporaryTree()
    let package = try temporary.subdirectory("package")
    var path: [UInt8] = []
    let inside = Directory(descriptor: package.rawValue)
    for level in 0..<300 {
      let name = [UInt8](repeating: 0x61 + UInt8(level % 26), count: level % 3 == 0 ? 255 : 3)
      let parent = try inside.openDeepDirectory(path)
      try name.withCName { name throws in
        try Directory(descriptor: parent.rawValue).makeDirectory(name, mode: 0o755)
      }
      path += (path.isEmpty ? [] : [0x2f]) + name
    }
    let deepest = try inside.openDeepDirectory(path)
    try Directory(descriptor: deepest.rawValue).write("bottom", "reached")
    let reader = try reader(inside)
    #expect(reader.layout.memberCount == 302)
    #expect(reader.layout.path(300) == path + Array("/bottom".utf8))
    let data = reader.layout.entries[300].offset + Int64(reader.layout.entries[300].headLength)
    #expect(try reader.bytes(data..<(data + 7)) == Array("reached".utf8))
  }

  /// Directories in one another, with names of one letter.
  private func makeNested(_ depth: Int, in directory: Directory) throws {
    var cursor = try TreeCursor(directory)
    for _ in 0..<depth {
      try cursor.directory.makeDirectory("d", mode: 0o755)
      try cursor.enter("d")
    }
  }

  /// Four times as deep takes four times as long, not sixteen times.
  @Test func walkOfDeepPackage_takesLinearTime() throws {
    let clock = ContinuousClock()
    var least: [Duration] = []
    for depth in [1500, 6000] {
      let temporary = try TemporaryTree()
      let package = try temporary.subdirectory("package")
      let directory = Directory(descriptor: package.rawValue)
      try makeNested(depth, in: directory)
      least.append(
        try (0..<4).map { _ in
          try clock.measure {
            let layout = try PackageLayout(of: directory, type: bundleType)
            let stamp = try PackageStamp(of: directory)
            #expect(layout.memberCount == depth + 1 && layout.stamp == stamp)
          }
        }.min()!)
      try #require(shell("rm -r '\(temporary.path)/package'") == 0)
    }
    print("packages of 1500 and 6000 nested directories are walked in \(least[0]) and \(least[1])")
    #expect(least[1] < least[0] * 8)
  }

  @Test func streamOfDeepPackage_isRestoredExactly() throws {
    let temporary = try TemporaryTree()
    let package = try temporary.subdirectory("package")
    let directory = Directory(descriptor: package.rawValue)
    try makeNested(700, in: directory)
    let deepest = try directory.openDeepDirectory(
      Array(repeatElement([0x64], count: 700).joined(separator: [0x2f])))
    try Directory(descriptor: deepest.rawValue).write("file", "at the bottom")
    let reader = try reader(directory)
    let stream = try temporary.directory.open("stream", O_CREAT | O_RDWR, mode: 0o600)
    let bytes = try reader.allBytes()
    #expect(Int64(bytes.count) == reader.layout.size)
    try bytes.withUnsafeBytes { try writeFully(stream.rawValue, $0, at: 0) }
    let restored = try temporary.subdirectory("restored")
    try PackageImport(checking: stream.rawValue).unpack(into: Directory(descriptor: restored.rawValue))
    #expect(try PackageStreamTests.reader(Directory(descriptor: restored.rawValue)).allBytes() == bytes)
    try #require(shell("rm -r '\(temporary.path)/package' '\(temporary.path)/restored'") == 0)
  }

  @Test func layoutOfBeginning_givesSameBytesWhereItCovers() throws {
    let temporary = try TemporaryTree()
    try makeOddPackage(in: temporary.directory)
    let whole = try reader(temporary.directory)
    let all = try whole.allBytes()
    for length in [1, 512, 1024, 4096, 65_536, all.count + 1] {
      let layout = whole.layout.beginning(length)
      #expect(layout.size == whole.layout.size && layout.stamp == whole.layout.stamp)
      #expect(layout.memberCount <= length / 512 + 1)
      let reader = PackageReader(
        layout: layout, package: try temporary.directory.open(".", O_RDONLY | O_DIRECTORY))
      try reader.checkReadable()
      for (offset, count) in [
        (0, 1), (0, length), (length / 2, length / 2), (0, all.count + 10), (700, 5000),
      ] {
        let range = Int64(offset)..<Int64(offset + count)
        guard layout.covers(count, at: range.lowerBound) else {
          #expect(throws: Errno.invalidArgument) { try reader.bytes(range) }
          continue
        }
        #expect(try reader.bytes(range) == Array(all.dropFirst(offset).prefix(count)))
      }
      #expect(layout.covers(all.count + 10, at: 0) == (length > all.count))
    }
  }

  /// What is remembered of a package must not grow with what its owner gives a file.
  @Test func layoutOfBeginning_omitsLongHeader() throws {
    let temporary = try TemporaryTree()
    try temporary.directory.write("a", "text")
    try temporary.directory.write("b", "text")
    for number in 0..<3 {
      try temporary.directory.setAttribute("b", "user.\(number)", [UInt8](repeating: 0x61, count: 1200))
    }
    let whole = try reader(temporary.directory)
    let layout = whole.layout.beginning(4096)
    #expect(layout.memberCount == 1 && layout.covers(1024 + 1536 + 512, at: 0))
    #expect(!layout.covers(4096, at: 0))
  }

  @Test func concurrentReads_giveSameBytes() async throws {
    let temporary = try TemporaryTree()
    for index in 0..<40 {
      try temporary.directory.write("file \(index)", String(repeating: "\(index)", count: 3000))
    }
    let reader = try reader(temporary.directory)
    let all = try reader.allBytes()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<4 {
        group.addTask {
          for _ in 0..<300 {
            let start = Int64.random(in: 0..<reader.layout.size - 5000)
            let bytes = try reader.bytes(start..<(start + 5000))
            #expect(bytes == Array(all[Int(start)..<Int(start) + 5000]))
          }
        }
      }
      try await group.waitForAll()
    }
  }
}
