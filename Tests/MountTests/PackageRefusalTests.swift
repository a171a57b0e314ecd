import CLinux
import Glibc
import SystemPackage
import Testing

/// A stream that does not become a package stays a file, and no other entry changes.
@Suite(.mounting) struct PackageRefusalTests {
  /// Writes a stream that differs from what a package gives, with checksums as they should be.
  private static let forge = """
    import sys, zlib
    def header(name, kind, size=0, link=b'', mode=b'0000755'):
        block = bytearray(512)
        block[0:len(name)] = name
        block[100:108] = mode + b'\\0'; block[108:116] = b'0000000\\0'; block[116:124] = b'0000000\\0'
        block[124:136] = b'%011o\\0' % size; block[136:148] = b'%011o\\0' % 0
        block[148:156] = b' ' * 8; block[156:157] = kind; block[157:157+len(link)] = link
        block[257:265] = b'ustar\\x0000'
        block[329:337] = b'0000000\\0'; block[337:345] = b'0000000\\0'
        block[148:156] = b'%06o\\0 ' % sum(block)
        return bytes(block)
    def told(data):
        records = b'26 comment=crc32:%08x\\n' % zlib.crc32(data)
        return header(b'./PaxHeaders/%08x' % zlib.crc32(records), b'x', len(records), mode=b'0000644') + records.ljust(512, b'\\0')
    original = open(sys.argv[1], 'rb').read()
    evil = {
        'harmless': header(b'./x', b'0', 3) + b'abc'.ljust(512, b'\\0'),
        'with checksum': header(b'./x', b'0', 3) + b'abc'.ljust(512, b'\\0') + told(b'abc'),
        'damaged': header(b'./x', b'0', 3) + b'abd'.ljust(512, b'\\0') + told(b'abc'),
        'some without checksum': header(b'./x', b'0', 3) + b'abc'.ljust(512, b'\\0') + header(b'./y', b'0', 3) + b'abc'.ljust(512, b'\\0') + told(b'abc'),
        'absolute': header(b'/tmp/displayfs-escaped', b'0'),
        'parent': header(b'./../escaped', b'0'),
        'parent2': header(b'./a/', b'5') + header(b'./a/../../escaped', b'0'),
        'symlink': header(b'./out', b'2', link=b'../../escaped'),
        'absolute-symlink': header(b'./out', b'2', link=b'/etc'),
        'through': header(b'./out', b'2', link=b'.') + header(b'./out/x', b'0'),
        'hardlink': header(b'./out', b'1', link=b'/etc/passwd'),
        'device': header(b'./null', b'3'),
        'twice': header(b'./a', b'0') + header(b'./a', b'0'),
        'huge': header(b'./a', b'0', 0o77777777777),
    }[sys.argv[2]]
    sys.stdout.buffer.write(original[:1024] + evil + header(b'./', b'5') + bytes(1024))
    """

  private static func write(_ kind: String, from package: String, to path: String) -> Outcome {
    Shell.run(["/bin/sh", "-c", "python3 -c \"$1\" \"$2\" \"$3\" >\"$4\"", "sh", forge, package, kind, path])
  }

  private func view(_ options: String = "") throws -> MountedView {
    try MountedView(options) { try PackageTree.album(in: $0) }
  }

  /// The forger's headers are right: with a harmless member its stream is taken.
  @Test(arguments: ["harmless", "with checksum"])
  func forgedHarmlessStream_becomesPackage(_ kind: String) throws {
    let view = try view()
    #expect(Self.write(kind, from: view.at("Album"), to: view.at("Forged")).status == 0)
    #expect(text(view.real("Forged.photoslibrary/x")) == "abc")
  }

  @Test(arguments: [
    "absolute", "parent", "parent2", "symlink", "absolute-symlink", "through", "hardlink", "device", "twice",
    "huge", "damaged", "some without checksum",
  ]) func hostileStream_staysFile(_ kind: String) throws {
    let view = try view()
    #expect(Self.write(kind, from: view.at("Album"), to: view.at("Evil")).status == 0)
    #expect(status(view.real("Evil"))?.isRegular == true)
    #expect(status(view.at("Evil"))?.isRegular == true)
    #expect(view.realListing() == ["Album.photoslibrary", "Evil"])
    #expect(
      view.leftovers.isEmpty && !isThere(view.source + "/../escaped") && !isThere("/tmp/displayfs-escaped"))
  }

  @Test func truncatedStream_staysFileUntilCompleted() throws {
    let view = try view()
    let all = try #require(contents(view.at("Album")))
    for length in [
      0, 100, 1023, 1024, 5000, all.count / 2, all.count - 1025, all.count - 1024, all.count - 1,
    ] {
      try put(Array(all.prefix(length)), at: view.at("Part \(length)"))
      #expect(contents(view.real("Part \(length)")) == Array(all.prefix(length)))
      // The rest makes it whole.
      guard length == all.count / 2 else { continue }
      let rest = view.source + ".rest"
      try put(Array(all.dropFirst(length)), at: rest)
      #expect(view.shell("cat '\(rest)' >>'Part \(length)'").status == 0)
      try waitUntil { isThere(view.real("Part \(length).photoslibrary")) }
      PackageTree.expectSame(view.real("Album.photoslibrary"), view.real("Part \(length).photoslibrary"))
    }
    #expect(view.leftovers.isEmpty)
  }

  /// The other name goes on to show what is written by this one.
  @Test func streamWithAnotherHardLink_staysFile() throws {
    let view = try view()
    try put([], at: view.at("Copy"))
    #expect(link(view.at("Copy"), view.at("Other")) == 0)
    #expect(view.shell("cat Album >Copy && cmp Album Copy && cmp Album Other").status == 0)
    #expect(view.realListing() == ["Album.photoslibrary", "Copy", "Other"])
    #expect(unlink(view.at("Other")) == 0)
    #expect(view.shell("cat Album >Copy").status == 0)
    try waitUntil { isThere(view.real("Copy.photoslibrary")) }
    #expect(view.realListing() == ["Album.photoslibrary", "Copy.photoslibrary"])
    #expect(view.leftovers.isEmpty)
  }

  @Test func flippedBitInHeader_isDetected() throws {
    let view = try view()
    let all = try #require(contents(view.at("Album")))
    for (number, offset) in [
      20, 520, 1030, 1024 + 100, 1024 + 156, all.count - 1024 - 512 + 3, all.count - 10,
    ].enumerated() {
      var bytes = all
      bytes[offset] ^= 4
      try put(bytes, at: view.at("Flipped \(number)"))
      #expect(contents(view.real("Flipped \(number)")) == bytes, "byte \(offset)")
    }
    #expect(view.leftovers.isEmpty)
  }

  // MARK: Writes after the end of a stream

  /// Writes a stream, closes a copy of the descriptor, and then calls `then`.
  private func write(_ stream: [UInt8], to path: String, then: (OpenFile) throws -> Void) throws {
    let file = try OpenFile(path, O_RDWR | O_CREAT)
    let count = stream.withUnsafeBytes { Glibc.write(file.descriptor, $0.baseAddress, $0.count) }
    try #require(count == stream.count)
    try #require(close(dup(file.descriptor)) == 0)
    try then(file)
  }

  @Test(arguments: ["Copy", "Copy.photoslibrary"])
  func write_afterDuplicateDescriptorIsClosed_isKept(name: String) throws {
    let view = try view()
    let stream = try #require(contents(view.at("Album")))
    try write(stream, to: view.at(name)) { file in
      #expect(status(view.real("Copy.photoslibrary"))?.isDirectory == true)
      file.write("and more", at: stream.count)
    }
    #expect(eventually(within: .work) { status(view.real(name))?.isRegular == true })
    #expect(contents(view.at(name)) == stream + Array("and more".utf8))
    #expect(view.realListing() == ["Album.photoslibrary", FileName(name)])
    // Written once more as it should be, it is a package again.
    try put(stream, at: view.at(name))
    PackageTree.expectSame(view.real("Album.photoslibrary"), view.real("Copy.photoslibrary"))
  }

  /// Only the change time shows the write, as no program can set it.
  @Test(arguments: ["Copy", "Copy.photoslibrary"])
  func writeInPlace_withModificationTimePutBack_isKept(name: String) throws {
    let view = try view()
    let stream = try #require(contents(view.at("Album")))
    let offset = try #require(stream.indices.first { stream[$0...].starts(with: "picture 7".utf8) })
    try write(stream, to: view.at(name)) { file in
      #expect(status(view.real("Copy.photoslibrary"))?.isDirectory == true)
      let before = file.status
      file.write("CHANGED!!", at: offset)
      let times = [before.st_atim, before.st_mtim]
      #expect(futimens(file.descriptor, times) == 0)
      let after = file.status
      #expect(
        after.st_mtim.tv_sec == before.st_mtim.tv_sec && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec)
    }
    // It is still a package's stream, and so may have become a package again.
    let isKept = "grep -rq 'CHANGED!!' '\(view.source)' --exclude-dir=.displayfs-staging"
    #expect(eventually(within: .work) { Shell.run(isKept).status == 0 })
    #expect(view.leftovers.isEmpty)
  }

  @Test func shellWrite_afterItsChildExits_isKept() throws {
    let view = try view()
    #expect(view.shell("{ cat Album; echo more; } >Copy").status == 0)
    let expected = try #require(contents(view.at("Album"))) + Array("more\n".utf8)
    #expect(eventually(within: .work) { contents(view.real("Copy")) == expected })
    #expect(view.realListing() == ["Album.photoslibrary", "Copy"])
  }

  @Test func changedPackage_staysBesideRestoredStream() throws {
    let view = try view()
    let stream = try #require(contents(view.at("Album")))
    try write(stream, to: view.at("Copy")) { file in
      try put("new", at: view.at("Copy.photoslibrary/new"))
      file.write("and more", at: stream.count)
    }
    #expect(eventually(within: .work) { contents(view.real("Copy")) == stream + Array("and more".utf8) })
    #expect(text(view.real("Copy.photoslibrary/new")) == "new")
  }

  @Test func streamHeldOpenWithoutWrites_becomesPackage() throws {
    let view = try view()
    let stream = try #require(contents(view.at("Album")))
    try write(stream, to: view.at("Copy")) { file in
      #expect(file.bytes(stream.count, at: 0) == stream)
    }
    #expect(view.realListing() == ["Album.photoslibrary", "Copy.photoslibrary"])
    PackageTree.expectSame(view.real("Album.photoslibrary"), view.real("Copy.photoslibrary"))
  }

  /// Where the kernel passes data through, the view does not see what is written through a mapping once the file is closed, nor
  /// which processes have it open in the tree.
  @Test(
    .passthrough,
    arguments: [
      "mapped = libc.mmap(None, len(stream), 3, 1, file, 0)\nos.close(file)\n"
        + "later = lambda: ctypes.memmove(mapped, b'CHANGED!', 8)",
      "other = os.open(tree, os.O_RDWR)\nos.close(file)\nlater = lambda: (os.pwrite(other, b'CHANGED!', 0), os.close(other))",
    ])
  func streamThatIsStillWritten_isKeptAndBecomesFileAgain(write: String) throws {
    let view = try view()
    let program = PythonProgram(
      """
      import ctypes
      libc = ctypes.CDLL(None)
      libc.mmap.restype = ctypes.c_void_p
      libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
      stream, tree = open("Album", "rb").read(), "\(view.real("Copy"))"
      file = os.open("Copy", os.O_RDWR | os.O_CREAT | os.O_EXCL)
      os.write(file, stream)
      \(write)
      while not os.path.isdir(tree + ".photoslibrary"): time.sleep(0.01)
      time.sleep(0.2)
      later()
      """, in: view.mountPoint
    )
    let outcome = program.run()
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(eventually { status(view.real("Copy"))?.isRegular == true })
    #expect(contents(view.real("Copy"))?.starts(with: "CHANGED!".utf8) == true)
    #expect(eventually { view.realListing() == ["Album.photoslibrary", "Copy"] })
    #expect(view.leftovers.isEmpty)
  }

  /// Python that copies a package's stream and keeps the copy open in the tree.
  private static func copying(in view: MountedView) -> String {
    """
    stream = open("Album", "rb").read()
    with open("Copy", "xb") as file:
        file.write(stream)
        file.flush()
        other = os.open("\(view.real("Copy"))", os.O_RDWR)
    """
  }

  /// A program that has it open in the tree ends without having written anything.
  @Test(.passthrough) func streamThatIsNotWrittenAfterAll_isRemoved() throws {
    let view = try view()
    let writer = PythonProgram(
      """
      \(Self.copying(in: view))
      time.sleep(0.5)
      # The stream and its record.
      staged = sorted(os.listdir("\(view.real(".displayfs-staging"))"), key=len)
      assert [name.endswith("-record") for name in staged] == [False, True]
      """, in: view.mountPoint
    ).run()
    #expect(writer.status == 0, "\(writer.complaint)")
    #expect(view.leftovers.isEmpty)
    PackageTree.expectSame(view.real("Album.photoslibrary"), view.real("Copy.photoslibrary"))
  }

  /// A program that has it open in the tree writes after the view was unmounted, and after the next mount.
  @Test(.passthrough, arguments: [false, true])
  func streamThatIsWrittenAfterUnmount_isKept(isMountedAgain: Bool) throws {
    let view = try view()
    let writer = PythonProgram(
      """
      \(Self.copying(in: view))
      os.chdir("/")
      while not os.path.exists("\(view.source).go"): time.sleep(0.01)
      os.pwrite(other, b"CHANGED!", stream.index(b"picture 7"))
      """, in: view.mountPoint
    ).start()
    defer { writer.wait() }
    #expect(eventually(within: .work) { status(view.real("Copy.photoslibrary"))?.isDirectory == true })
    #expect(eventually { !Shell.run("ls '\(view.real(".displayfs-staging"))'").text.isEmpty })
    usleep(300_000)
    view.unmount()
    if isMountedAgain { try view.mount("profile=macos,language=en") }
    try put("", at: "\(view.source).go")
    defer { unlink("\(view.source).go") }
    // In staging, or a file again where the daemon has not ended when the program does.
    let isThere = "grep -rq 'CHANGED!' '\(view.source)'"
    #expect(eventually { Shell.run(isThere).status == 0 })
    // It is still a package's stream, and yet no later mount deletes it.
    writer.wait()
    if Displayfs.isMounted(view.mountPoint) { view.unmount() }
    try view.mount("profile=macos,language=en")
    #expect(view.listing().contains("Copy"))
    view.unmount()
    #expect(Shell.run(isThere).status == 0)
  }

  /// A program that has the stream open in the tree writes to it after the view was unmounted, and puts the modification time back.
  @Test(.passthrough) func streamWrittenAfterUnmount_withModificationTimePutBack_isKeptByNextMount() throws {
    let view = try view()
    let writer = PythonProgram(
      """
      \(Self.copying(in: view))
      before = os.fstat(other)
      os.chdir("/")
      while not os.path.exists("\(view.source).go"): time.sleep(0.01)
      os.pwrite(other, b"CHANGED!!", stream.index(b"picture 7"))
      os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
      """, in: view.mountPoint
    ).start()
    defer { writer.wait() }
    defer { unlink("\(view.source).go") }
    #expect(eventually(within: .work) { status(view.real("Copy.photoslibrary"))?.isDirectory == true })
    view.unmount()
    try waitUntil { view.daemon == nil }
    try put("", at: "\(view.source).go")
    writer.wait()
    let isKept = "grep -rq 'CHANGED!!' '\(view.source)'"
    #expect(Shell.run(isKept).status == 0)
    // The next mount deletes this.
    try put("x", at: view.real(".displayfs-staging/unpacking-1/part"))
    try view.mount("profile=macos,language=en")
    try waitUntil { !isThere(view.real(".displayfs-staging/unpacking-1")) }
    view.unmount()
    try waitUntil { view.daemon == nil }
    #expect(Shell.run(isKept).status == 0)
  }

  @Test(.tracing) func fileTakingNameDuringImport_isNotOverwritten() throws {
    let view = try view()
    let outside = "\(view.source).stick"
    #expect(Shell.run("cp '\(view.at("Album"))' '\(outside)'").status == 0)
    // The daemon waits where everything is unpacked and nothing is in its place.
    let tracer = try Tracer(of: try #require(view.daemon), at: "syncfs", "delay_enter=2000000")
    defer { tracer.stop() }
    let copying = Shell.start("cp '\(outside)' '\(view.at("Copy"))'")
    #expect(eventually(within: .work) { isThere(view.real(".displayfs-staging")) })
    try put("another file", at: view.real("other"))
    #expect(rename(view.real("other"), view.real("Copy")) == 0)
    copying.wait()
    #expect(text(view.real("Copy")) == "another file")
  }

  @Test func streamWrittenToPackageName_becomesPackage() throws {
    let view = try view()
    try put("mine", at: view.real("Copy.photoslibrary"))
    // An existing entry of that real name is in the way, and stays.
    #expect(view.shell("cat Album >Copy").status == 0)
    #expect(view.listing() == ["Album", "Copy", "Copy.photoslibrary"])
    #expect(text(view.real("Copy.photoslibrary")) == "mine")
    #expect(view.shell("rm Copy && cat Album >Copy.photoslibrary").status == 0)
    PackageTree.expectSame(view.real("Album.photoslibrary"), view.real("Copy.photoslibrary"))
    #expect(view.realListing() == ["Album.photoslibrary", "Copy.photoslibrary"])
  }

  @Test(.asRoot) func stream_onFullDisk_staysFile() throws {
    let view = try view()
    let outside = "\(view.source).stick"
    #expect(Shell.run("cp '\(view.at("Album"))' '\(outside)'").status == 0)
    let size = try #require(status(outside)?.st_size)
    let small = try MountedView("profile=macos") { root in
      let options = "size=\((size * 3 / 2 + 4095) / 4096 * 4096),mode=755"
      try #require(Shell.run("mount -t tmpfs -o \(options) none '\(root)'").status == 0)
      try #require(Shell.run("truncate -s 0 '\(root)/marker.txt'").status == 0)
    }
    let outcome = Shell.run("cp '\(outside)' '\(small.at("Album"))'")
    #expect(outcome.status == 0, "\(outcome.errorText)")
    #expect(small.realListing() == ["Album", "marker.txt"])
    #expect(contents(small.real("Album")) == contents(outside))
    #expect(small.leftovers.isEmpty)
    #expect(contents(small.at("Album")) == contents(outside))
  }

  @Test(.asRoot) func package_withUnreadablePart_isRefused() throws {
    let view = try MountedView("allow_other") { root in
      try PackageTree.album(in: root)
      try put("open to all", at: "\(root)/Open.photoslibrary/a")
      try put("secret", at: "\(root)/Begin.photoslibrary/a")
      chmod("\(root)/Begin.photoslibrary/a", 0o600)
      try put("secret", at: "\(root)/Closed.photoslibrary/private/a")
      chmod("\(root)/Closed.photoslibrary/private", 0o700)
    }
    chmod(view.real("Album.photoslibrary"), 0o755)
    func run(_ script: String) -> Outcome { view.run(as: 61001, script) }
    // Root has read all packages, and the daemon has cached what root read.
    usleep(2_500_000)
    for name in ["Album", "Open", "Begin", "Closed"] {
      for _ in 0..<2 { #expect(view.shell("cat \(name) >/dev/null").status == 0) }
    }
    #expect(run("cat Open | grep -qa 'open to all'").status == 0)
    for name in ["Album", "Begin", "Closed"] {
      let outcome = run("cat \(name)")
      #expect(outcome.status != 0, "\(name)")
      #expect(!String(decoding: outcome.output, as: UTF8.self).contains("secret"), "\(name)")
      #expect(outcome.errorText.contains("Permission denied"), "\(name): \(outcome.errorText)")
    }
    #expect(run("head -c 4096 Begin").status != 0)
    #expect(run("head -c 4096 Begin | grep -a secret").status != 0)
    #expect(view.shell("cat Begin | grep -qa secret").status == 0)
  }

  @Test(.asRoot) func copyOfPackage_byUser_belongsToUser() throws {
    let view = try MountedView("allow_other") { root in
      try put("x", at: "\(root)/Open.photoslibrary/a")
      makeDirectory("\(root)/theirs")
      chown("\(root)/theirs", 61001, 61001)
    }
    let outcome = Shell.run(
      [
        "setpriv", "--reuid=61001", "--regid=61001", "--clear-groups", "cp", view.at("Open"),
        view.at("theirs/Copy"),
      ])
    #expect(outcome.status == 0, "\(outcome.errorText)")
    for path in ["theirs/Copy.photoslibrary", "theirs/Copy.photoslibrary/a"] {
      #expect(status(view.real(path))?.st_uid == 61001 && status(view.real(path))?.st_gid == 61001, "\(path)")
    }
  }
}
