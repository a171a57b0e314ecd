import CLinux
import Glibc
import SystemPackage
import Testing

/// Whether the file system of the temporary directory counts readings, and knows O_DIRECT.
private let temporary: (countsReading: Bool, hasDirectIO: Bool) = {
  guard let directory = try? TemporaryDirectory() else { return (false, false) }
  let path = directory.path("probe")
  try? put("x", at: path)
  let old = [timespec(tv_sec: 1, tv_nsec: 0), timespec(tv_sec: 2, tv_nsec: 0)]
  utimensat(AT_FDCWD, path, old, 0)
  _ = contents(path)
  let hasDirectIO = (try? OpenFile(path, O_RDWR | dfs_O_DIRECT)) != nil
  return (status(path)?.st_atim.tv_sec != 1, hasDirectIO)
}()

/// What programs do with the content of files, by a display name wherever one is given.
@Suite(.mounting) struct ContentTests {
  private func view(_ options: String = "") throws -> MountedView {
    try MountedView(options) { root in try put("0123456789", at: "\(root)/notes.txt") }
  }

  @Test func unlinkedFile_staysUsableThroughDescriptor() throws {
    let view = try view()
    let file = try OpenFile(view.at("notes"), O_RDWR)
    #expect(unlink(view.at("notes")) == 0)
    #expect(view.realListing() == [])
    #expect(file.text() == "0123456789")
    #expect(file.write("ABC", at: 2) == 3)
    #expect(file.text() == "01ABC56789")
    #expect(file.status.st_nlink == 0)
    #expect(file.status.st_size == 10)
    #expect(failure { ftruncate(file.descriptor, 4) } == nil)
    #expect(file.status.st_size == 4)
    #expect(failure { fchmod(file.descriptor, 0o600) } == nil)
    #expect(file.status.permissions == 0o600)
    #expect(failure { fsync(file.descriptor) } == nil)
    #expect(file.text() == "01AB")
    // Its name is free, and nothing that stands in for the open file is in the way.
    try put("new", at: view.at("notes.txt"))
    #expect(file.text() == "01AB")
    #expect(view.realListing() == ["notes.txt"])
  }

  @Test func replacedFile_staysUsableThroughDescriptor() throws {
    let view = try view()
    let file = try OpenFile(view.at("notes"), O_RDWR)
    try put("new", at: view.at("draft"))
    #expect(rename(view.at("draft"), view.at("notes")) == 0)
    #expect(file.text() == "0123456789")
    #expect(file.write("X", at: 0) == 1)
    #expect(text(view.at("notes")) == "new")
    #expect(file.text() == "X123456789")
  }

  @Test func openFile_afterRename_isSameFile() throws {
    let view = try view()
    let file = try OpenFile(view.at("notes"), O_RDWR)
    #expect(rename(view.at("notes"), view.at("letter")) == 0)
    #expect(file.write("X", at: 0) == 1)
    #expect(text(view.at("letter")) == "X123456789")
    #expect(file.status.st_ino == status(view.at("letter"))?.st_ino)
  }

  @Test func writesThroughBothNames_reachOneFile() throws {
    let view = try view()
    let first = try OpenFile(view.at("notes"), O_RDWR)
    let second = try OpenFile(view.at("notes.txt"), O_RDWR)
    #expect(first.status.st_ino == second.status.st_ino)
    #expect(first.write("AB", at: 0) == 2)
    #expect(second.text() == "AB23456789")
    #expect(second.write("YZ", at: 8) == 2)
    #expect(first.text() == "AB234567YZ")
    #expect(text(view.real("notes.txt")) == "AB234567YZ")
    #expect(truncate(view.at("notes"), 3) == 0)
    #expect(second.text() == "AB2")
  }

  @Test func offsetBeyondFourGigabytes_isReadAndWritten() throws {
    let view = try view()
    let far = 5 << 30
    let file = try OpenFile(view.at("large"), O_RDWR | O_CREAT)
    #expect(file.write("far", at: far) == 3)
    #expect(file.text(10, at: far) == "far")
    #expect(file.status.st_size == far + 3)
    #expect(file.status.st_blocks < 100)
    #expect(file.bytes(4, at: 1 << 32) == [0, 0, 0, 0])
    #expect(status(view.real("large"))?.st_size == far + 3)
  }

  @Test func seekDataAndHole_matchBackingFile() throws {
    let view = try view()
    let real = try OpenFile(view.real("holes"), O_RDWR | O_CREAT)
    #expect(ftruncate(real.descriptor, 3 << 20) == 0)
    #expect(real.write("data", at: 1 << 20) == 4)
    #expect(fsync(real.descriptor) == 0)
    let file = try OpenFile(view.at("holes"))
    for (whence, from) in [
      (dfs_SEEK_DATA, 0), (dfs_SEEK_HOLE, 0), (dfs_SEEK_HOLE, 1 << 20), (dfs_SEEK_DATA, 2 << 20),
      (dfs_SEEK_HOLE, 4 << 20),
    ] {
      errno = 0
      let expected = lseek(real.descriptor, from, whence)
      let expectedError = expected < 0 ? errno : 0
      errno = 0
      let found = lseek(file.descriptor, from, whence)
      #expect(found == expected, "\(whence) from \(from)")
      #expect((found < 0 ? errno : 0) == expectedError)
    }
  }

  /// The modes of fallocate(2): to keep the size, punch a hole, collapse, zero and insert.
  @Test(arguments: [0, 1, 1 | 2, 8, 16, 16 | 1, 32] as [CInt])
  func fallocate_matchesBackingFileSystem(mode: CInt) throws {
    let view = try view()
    let content = [UInt8](repeating: 0x41, count: 64 << 10)
    try put(content, at: view.real("direct"))
    try put(content, at: view.real("mounted"))
    func run(_ path: String) throws -> Errno? {
      let file = try OpenFile(path, O_RDWR)
      return failure { dfs_fallocate(file.descriptor, mode, 8192, mode & 40 == 0 ? 128 << 10 : 4096) }
    }
    let (expected, actual) = (try run(view.real("direct")), try run(view.at("mounted")))
    // The kernel passes not every mode on to user space; what it refuses is refused as not supported.
    if actual == .notSupported, expected != .notSupported {
      #expect(contents(view.real("mounted")) == content)
      return
    }
    #expect(actual == expected)
    #expect(contents(view.real("mounted")) == contents(view.real("direct")))
    #expect(contents(view.at("mounted")) == contents(view.real("direct")))
    #expect(status(view.at("mounted"))?.st_size == status(view.real("direct"))?.st_size)
    #expect(status(view.at("mounted"))?.st_blocks == status(view.real("direct"))?.st_blocks)
  }

  @Test func copyFileRange_copies() throws {
    let view = try view()
    let from = try OpenFile(view.at("notes"))
    let to = try OpenFile(view.at("copy"), O_RDWR | O_CREAT)
    #expect(dfs_copy_file_range(from.descriptor, 2, to.descriptor, 1, 5, 0) == 5)
    #expect(to.bytes(20, at: 0) == [0] + Array("23456".utf8))
    #expect(to.status.st_size == 6)
    #expect(text(view.real("copy")) == "\0" + "23456")
    #expect(dfs_copy_file_range(from.descriptor, 10, to.descriptor, 0, 5, 0) == 0)
  }

  /// Linux 6.18 has a request of its own for it, and sends the older one again where that is not known.
  @Test func copyFileRange_needsOneRequest() throws {
    let view = try view()
    let requests = try view.reported(
      "requests",
      during: """
        python3 -c '
        import os
        source, target = os.open("notes", os.O_RDONLY), os.open("copy", os.O_RDWR | os.O_CREAT)
        for offset in range(3): assert os.copy_file_range(source, target, 2, offset, offset) == 2
        '
        """)
    #expect(text(view.real("copy")) == "0123")
    let counts = requests.split(separator: ", ").filter {
      $0.hasSuffix("copy_file_range") || $0.hasSuffix("copy_file_range_64")
    }
    #expect(counts.count == 1 && counts[0].hasPrefix("3 "), "\(requests)")
  }

  /// Not one more for security.capability, which a write would remove.
  @Test func writeThroughDaemon_needsOneRequest() throws {
    let view = try view("passthrough=off")
    let script =
      "python3 -c 'import os; f = os.open(\"notes\", 2); [os.pwrite(f, b\"x\", i) for i in range(9)]'"
    #expect(try view.requestCount("write", during: script) == 9)
    #expect(text(view.real("notes.txt")) == "xxxxxxxxx9")
    // Before the first write it is read.
    #expect(try view.requestCount("getxattr", during: script) <= 4)
  }

  /// Large replies are spliced, small ones copied.
  @Test func readThroughDaemon_returnsContent_atAnySize() throws {
    let view = try view("passthrough=off")
    var generator = SystemRandomNumberGenerator()
    let content = (0..<(1 << 20) + 4321).map { _ in UInt8.random(in: 0...255, using: &generator) }
    try put(content, at: view.real("large.bin"))
    let file = try OpenFile(view.at("large.bin"))
    // Without readahead, a request for each read.
    posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_RANDOM)
    for size in [1, 4095, 4096, 8191, 8192, 8193, 65_537, 131_072, 1 << 20, 2 << 20] {
      for offset in [0, 1, 4096, 12_345, 1 << 20, content.count - 1, content.count] {
        let end = min(content.count, offset + size)
        posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_DONTNEED)
        #expect(file.bytes(size, at: off_t(offset)) == Array(content[offset..<end]), "\(size) at \(offset)")
      }
    }
  }

  @Test func temporaryFile_isLinkedIntoView() throws {
    let view = try view()
    let file: OpenFile
    do {
      file = try OpenFile(view.mountPoint, dfs_O_TMPFILE | O_RDWR)
    } catch Errno.notSupportedOnSocket {
      // libfuse forwards the request since 3.17. With earlier versions the call fails, and programs make a named file instead.
      return
    }
    #expect(file.write("made") == 4)
    #expect(view.realListing() == ["notes.txt"])
    #expect(file.status.st_nlink == 0)
    let handle = "/proc/self/fd/\(file.descriptor)"
    #expect(
      failure { linkat(AT_FDCWD, handle, AT_FDCWD, view.at("named.txt"), CInt(AT_SYMLINK_FOLLOW)) } == nil)
    #expect(text(view.at("named")) == "made")
    #expect(file.status.st_nlink == 1)
    #expect(
      failure { linkat(AT_FDCWD, handle, AT_FDCWD, view.at("notes"), CInt(AT_SYMLINK_FOLLOW)) } == .fileExists
    )
  }

  @Test func appendsOfTwoProcesses_areAllKept() throws {
    let view = try view()
    let script = """
      write() { i=0; while [ $i -lt 200 ]; do echo "$1$i" >>log; i=$((i+1)); done; }
      : >log; write a & write b & wait; sort -u log | wc -l; wc -l <log
      """
    #expect(view.shell(script).text == "400\n400")
    let first = try OpenFile(view.at("log2"), O_WRONLY | O_CREAT | O_APPEND)
    let second = try OpenFile(view.real("log2"), O_WRONLY | O_APPEND)
    for _ in 0..<10 {
      #expect(first.write("a") == 1)
      #expect(second.write("b") == 1)
    }
    #expect(text(view.at("log2")) == String(repeating: "ab", count: 10))
  }

  @Test func sharedMappingAndReadWrite_areCoherent() throws {
    let view = try view()
    let file = try OpenFile(view.at("notes"), O_RDWR)
    let mapped = try #require(mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0))
    defer { munmap(mapped, 4096) }
    try #require(mapped != MAP_FAILED)
    let bytes = mapped.assumingMemoryBound(to: UInt8.self)
    #expect(bytes[3] == UInt8(ascii: "3"))
    bytes[0] = UInt8(ascii: "M")
    #expect(file.text(1) == "M")
    #expect(file.write("W", at: 1) == 1)
    #expect(bytes[1] == UInt8(ascii: "W"))
    #expect(msync(mapped, 4096, CInt(MS_SYNC)) == 0)
    #expect(text(view.real("notes.txt")) == "MW23456789")
    #expect(view.shell("head -c 3 notes").text == "MW2")
  }

  @Test func programsInView_areExecutable() throws {
    let view = try view()
    try put("#!/bin/sh\necho ran\n", at: view.at("tool"))
    #expect(chmod(view.at("tool"), 0o755) == 0)
    #expect(view.shell("./tool").text == "ran")
    #expect(view.shell("cp /bin/echo program && ./program ran").text == "ran")
  }

  @Test func thousandOpenFiles_areReadAndWritten() throws {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = min(limit.rlim_max, 4096)
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    let view = try view()
    let files = try (0..<1000).map { try OpenFile(view.at("file\($0)"), O_RDWR | O_CREAT) }
    for (number, file) in files.enumerated() { file.write("\(number)") }
    for (number, file) in files.enumerated() { #expect(file.text() == "\(number)") }
    #expect(view.listing().count == 1001)
  }

  private static let modes = ["passthrough=on", "passthrough=off"]

  /// The kernel writes pages of a mapping through any of the descriptors that are open for writing.
  @Test(arguments: modes) func pagesMappedThroughAppendingDescriptor_areWrittenInPlace(options: String) throws
  {
    let view = try view(options)
    let file = try OpenFile(view.at("notes"), O_RDWR | O_APPEND)
    let mapped = try #require(mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0))
    try #require(mapped != MAP_FAILED)
    mapped.assumingMemoryBound(to: UInt8.self)[0] = UInt8(ascii: "M")
    #expect(msync(mapped, 4096, CInt(MS_SYNC)) == 0)
    munmap(mapped, 4096)
    #expect(text(view.real("notes.txt")) == "M123456789")
  }

  @Test func writeThroughDaemon_afterAppendFlagIsCleared_landsAtItsOffset() throws {
    let view = try view("passthrough=off")
    let file = try OpenFile(view.at("notes"), O_WRONLY | O_APPEND)
    #expect(file.write("a", at: 0) == 1)
    #expect(text(view.real("notes.txt")) == "0123456789a")
    #expect(failure { fcntl(file.descriptor, F_SETFL, 0) } == nil)
    #expect(file.write("X", at: 0) == 1)
    #expect(text(view.real("notes.txt")) == "X123456789a")
    // Set again, it appends at the end that the file has by then.
    #expect(failure { fcntl(file.descriptor, F_SETFL, O_APPEND) } == nil)
    #expect(try OpenFile(view.real("notes.txt"), O_WRONLY | O_APPEND).write("b") == 1)
    #expect(file.write("c", at: 0) == 1)
    #expect(text(view.real("notes.txt")) == "X123456789abc")
  }

  /// With `import=on` the daemon reads the beginning of a file without a known extension.
  @Test(.enabled(if: temporary.countsReading, "No reading changes a file's time here."))
  func accessTimeSetByCopyingProgram_survivesClose() throws {
    let view = try view()
    let content = [UInt8](repeating: 0x41, count: 4096)
    for name in ["copy", "copy.rtfd"] {
      let file = try OpenFile(view.at(name), O_WRONLY | O_CREAT)
      #expect(content.withUnsafeBytes { write(file.descriptor, $0.baseAddress, $0.count) } == content.count)
      let times = [timespec(tv_sec: 900_000_000, tv_nsec: 0), timespec(tv_sec: 900_000_000, tv_nsec: 0)]
      #expect(futimens(file.descriptor, times) == 0)
    }
    for name in ["copy", "copy.rtfd"] {
      #expect(status(view.real(name))?.st_atim.tv_sec == 900_000_000, "\(name)")
    }
  }

  /// As `dd oflag=direct` writes the last block.
  @Test(.enabled(if: temporary.hasDirectIO, "No O_DIRECT here."), arguments: modes)
  func unalignedTransfer_afterDirectIOIsSwitchedOff_succeeds(options: String) throws {
    let view = try view(options)
    let file = try OpenFile(view.at("direct.bin"), O_RDWR | O_CREAT | dfs_O_DIRECT)
    let buffer = UnsafeMutableRawPointer.allocate(byteCount: 8192, alignment: 4096)
    defer { buffer.deallocate() }
    memset(buffer, 0x41, 8192)
    #expect(write(file.descriptor, buffer, 4096) == 4096)
    #expect(failure { fcntl(file.descriptor, F_SETFL, 0) } == nil)
    #expect(write(file.descriptor, buffer, 511) == 511)
    #expect(pread(file.descriptor, buffer, 8192, 1) == 4606)
    #expect(contents(view.real("direct.bin")) == [UInt8](repeating: 0x41, count: 4607))
    // Another one that is open the usual way, and a mapping, see the same bytes.
    #expect(contents(view.at("direct.bin")) == contents(view.real("direct.bin")))
    let mapped = try #require(mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0))
    try #require(mapped != MAP_FAILED)
    mapped.assumingMemoryBound(to: UInt8.self)[0] = 0x42
    #expect(msync(mapped, 4096, CInt(MS_SYNC)) == 0)
    munmap(mapped, 4096)
    #expect(file.text(1) == "B")
    #expect(text(view.real("direct.bin"))?.first == "B")
  }

  @Test func fsyncAndFdatasync_succeed() throws {
    let view = try view()
    let file = try OpenFile(view.at("notes"), O_RDWR)
    file.write("synced", at: 0)
    #expect(failure { fsync(file.descriptor) } == nil)
    #expect(failure { fdatasync(file.descriptor) } == nil)
    let directory = try OpenFile(view.mountPoint)
    #expect(failure { fsync(directory.descriptor) } == nil)
  }

  @Test func openFlags_areHonored() throws {
    let view = try view()
    #expect(failure { open(view.at("notes"), O_WRONLY | O_DIRECTORY) } == .notDirectory)
    #expect(failure { open(view.mountPoint, O_WRONLY) } == .isDirectory)
    #expect(failure { open(view.at("notes/x"), O_RDONLY) } == .notDirectory)
    #expect(failure { open(view.at("absent"), O_RDONLY) } == .noSuchFileOrDirectory)
    let readOnly = try OpenFile(view.at("notes"))
    #expect(failure { CInt(truncatingIfNeeded: write(readOnly.descriptor, "x", 1)) } == .badFileDescriptor)
    let truncated = try OpenFile(view.at("notes"), O_RDWR | O_TRUNC)
    #expect(truncated.status.st_size == 0)
    #expect(status(view.real("notes.txt"))?.st_size == 0)
  }

  /// With O_RDONLY a file is emptied, too, for a client that may write it.
  @Test(.asRoot) func openToReadAndTruncate_emptiesFile() throws {
    let view = try MountedView("allow_other") { root in
      for name in ["notes.txt", "closed.txt", "nameless.txt"] { try put("content", at: "\(root)/\(name)") }
      try #require(chmod("\(root)/notes.txt", 0o666) == 0)
    }
    let user = try #require(OrdinaryUser.identifier)
    let emptied = PythonProgram(
      """
      file = os.open("notes", os.O_TRUNC)
      assert os.fstat(file).st_size == 0
      try: os.open("closed", os.O_TRUNC)
      except PermissionError: pass
      else: raise OSError("closed was opened")
      """, as: user, in: view.mountPoint
    ).run()
    #expect(emptied.status == 0, "\(emptied.complaint)")
    #expect(text(view.real("notes.txt")) == "" && text(view.real("closed.txt")) == "content")
    let nameless = try OpenFile(view.at("nameless"))
    #expect(unlink(view.at("nameless")) == 0)
    _ = try OpenFile("/proc/self/fd/\(nameless.descriptor)", O_RDONLY | O_TRUNC)
    #expect(nameless.status.st_size == 0)
  }
}
