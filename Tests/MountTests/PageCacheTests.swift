import Glibc
import SystemPackage
import Testing

/// Content that the kernel keeps in its page cache from one open to the next, where data does not pass through.
@Suite(.mounting) struct PageCacheTests {
  private func view(build: (String) throws -> Void) throws -> MountedView {
    try MountedView("passthrough=off", build: build)
  }

  /// A file that was last changed some seconds ago.
  private func waitUntilSettled() { sleep(3) }

  @Test func unchangedFile_openedAgain_isReadFromPageCache() throws {
    let view = try view { root in
      try put([UInt8](repeating: 0x41, count: 1 << 20), at: "\(root)/data.bin")
      sync()
    }
    waitUntilSettled()
    func isRead() throws -> Bool {
      try view.reported("requests", during: "cat data.bin >/dev/null").contains(" read")
    }
    #expect(try isRead())
    for _ in 0..<3 { #expect(try !isRead()) }
    // The time that a program gives a file says nothing.
    _ = Shell.run(
      "stat -c %y data.bin >time; printf X | dd of=data.bin conv=notrunc status=none; touch -d \"$(cat time)\" data.bin",
      in: view.source)
    #expect(contents(view.at("data.bin"))?.first == 0x58)
  }

  /// Changes of one tick of the clock, of the same size, by all ways to write, each followed by an open in the view.
  @Test func changeInBackingFile_isReadByNextOpen() throws {
    let view = try view { root in try put([UInt8](repeating: 0x41, count: 65_536), at: "\(root)/data.bin") }
    waitUntilSettled()
    let outcome = PythonProgram(
      """
      import mmap, random
      random.seed(2)
      real = '''\(view.source)/data.bin'''
      content = bytearray(b"A" * 65536)
      mapping = None
      wrong = 0
      def write(offset, byte):
        below = os.open(real, os.O_WRONLY)
        os.pwrite(below, byte, offset)
        os.close(below)
      def write_and_set_time_back(offset, byte):
        status = os.stat(real)
        write(offset, byte)
        os.utime(real, ns=(status.st_atime_ns, status.st_mtime_ns))
      def map(offset, byte):
        global mapping
        if mapping is None:
          below = os.open(real, os.O_RDWR)
          mapping = mmap.mmap(below, 65536)
          os.close(below)
        mapping[offset:offset + 1] = byte
        if random.randrange(50) == 0: mapping = None
      def through_the_view(offset, byte):
        file = os.open("data.bin", os.O_WRONLY)
        os.pwrite(file, byte, offset)
        os.close(file)
      for round in range(4000):
        offset, byte = random.randrange(65536), bytes([random.randrange(1, 256)])
        random.choice([write, write, write_and_set_time_back, map, map, through_the_view])(offset, byte)
        content[offset:offset + 1] = byte
        file = os.open("data.bin", os.O_RDONLY)
        if os.read(file, 65536) != content: wrong += 1
        os.close(file)
      print(wrong, "of", round + 1)
      """, in: view.mountPoint
    ).run()
    #expect(outcome.text == "0 of 4000", "\(outcome.complaint)")
  }

  /// Each of many files has its content in the page cache when it is changed.
  @Test func changeOfCachedFile_isReadByNextOpen() throws {
    let count = 400
    let view = try view { root in
      for number in 0..<count {
        try put([UInt8](repeating: 0x41, count: 20_000), at: "\(root)/\(number).bin")
      }
      sync()
    }
    waitUntilSettled()
    let outcome = PythonProgram(
      """
      import mmap, random
      random.seed(3)
      def look(name):
        with open(name, "rb") as file: return file.read()
      wrong = 0
      for number in range(\(count)):
        name = f"{number}.bin"
        real = f"\(view.source)/{name}"
        look(name)
        look(name)
        status = os.stat(real)
        offset = random.randrange(20000)
        below = os.open(real, os.O_RDWR)
        match number % 4:
          case 0: os.pwrite(below, b"x", offset)
          case 1:
            os.pwrite(below, b"x", offset)
            os.utime(real, ns=(status.st_atime_ns, status.st_mtime_ns))
          case 2:
            mapping = mmap.mmap(below, 20000)
            mapping[offset:offset + 1] = b"x"
          case 3:
            os.rename(real, real + "~")
            other = os.open(real, os.O_WRONLY | os.O_CREAT)
            os.write(other, b"A" * offset + b"x" + b"A" * (19999 - offset))
            os.close(other)
        os.close(below)
        if look(name) != b"A" * offset + b"x" + b"A" * (19999 - offset): wrong += 1
      print(wrong)
      """, in: view.mountPoint
    ).run()
    #expect(outcome.text == "0", "\(outcome.complaint)")
    // Each file is opened for a second time before it changes. The kernel forgets some in between, as the change of the file
    // before makes the directory's names stale.
    #expect(try view.reportedNumber("opens that kept cached data") > count / 2)
  }

  /// A mapping writes to a page that is dirty already: no time changes.
  @Test func changeThroughMappingOfDirtyPage_isReadByNextOpen() throws {
    let view = try view { root in try put([UInt8](repeating: 0x41, count: 65_536), at: "\(root)/data.bin") }
    let outcome = PythonProgram(
      """
      import mmap
      below = os.open('''\(view.source)/data.bin''', os.O_RDWR)
      mapping = mmap.mmap(below, 65536)
      wrong = 0
      def look(byte):
        file = os.open("data.bin", os.O_RDONLY)
        seen = os.pread(file, 65536, 0)
        os.close(file)
        return seen[:1] == byte and seen[4096:4097] == byte
      for round in range(4):
        mapping[0:1] = mapping[4096:4097] = b"0"
        os.utime('''\(view.source)/data.bin''')
        # Longer than times are taken to be recent, shorter than the kernel leaves pages dirty.
        time.sleep(3)
        for byte in [b"1", b"2", b"3", b"4"]:
          if not look(mapping[0:1]): wrong += 1
          mapping[0:1] = mapping[4096:4097] = byte
          if not look(byte): wrong += 1
      print(wrong)
      """, in: view.mountPoint
    ).run()
    #expect(outcome.text == "0", "\(outcome.complaint)")
  }
}
