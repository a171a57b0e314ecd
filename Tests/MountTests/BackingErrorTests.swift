import CLinux
import Glibc
import SystemPackage
import Testing

/// Clients get the errors that the backing file systems return.
@Suite(.mounting) struct BackingErrorTests {
  private func mountTemporary(_ path: String, _ options: String) -> Bool {
    makeDirectory(path)
    return Shell.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path]).status == 0
  }

  @Test(.asRoot) func writeAndCreate_onFullFileSystem_failWithENOSPC() throws {
    let view = try MountedView { root in
      try #require(mountTemporary(root, "size=256k,nr_inodes=50"))
      try put("kept", at: "\(root)/notes.txt")
    }
    let file = try OpenFile(view.at("big"), O_RDWR | O_CREAT)
    let block = [UInt8](repeating: 0x41, count: 64 << 10)
    var written = 0
    var error: Errno?
    while error == nil, written < 1 << 20 {
      error = failure { CInt(truncatingIfNeeded: write(file.descriptor, block, block.count)) }
      written += block.count
    }
    #expect(error == .noSpace)
    #expect(failure { dfs_fallocate(file.descriptor, 0, 0, 1 << 20) } == .noSpace)
    #expect(unlink(view.at("big")) == 0)
    var made = 0
    while made < 100, mkdir(view.at("d\(made)"), 0o755) == 0 { made += 1 }
    #expect(made < 50)
    #expect(failure { mkdir(view.at("more"), 0o755) } == .noSpace)
    #expect(failure { open(view.at("more"), O_CREAT | O_WRONLY, 0o644) } == .noSpace)
    #expect(failure { symlink("x", view.at("more")) } == .noSpace)
    #expect(text(view.at("notes")) == "kept")
    #expect(rmdir(view.at("d0")) == 0)
    #expect(mkdir(view.at("more"), 0o755) == 0)
  }

  /// The kernel writes all dirty pages in one request, of which the first part fits.
  @Test(.asRoot) func mappedWrite_onFullFileSystem_failsWithENOSPC() throws {
    let view = try MountedView("passthrough=off") { root in
      try #require(mountTemporary(root, "size=512k"))
    }
    let file = try OpenFile(view.at("mapped"), O_RDWR | O_CREAT)
    let size = 1 << 20
    #expect(ftruncate(file.descriptor, size) == 0)
    let memory = try #require(mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0))
    try #require(memory != MAP_FAILED)
    defer { munmap(memory, size) }
    memset(memory, 0x41, size)
    #expect(failure { msync(memory, size, MS_SYNC) } == .noSpace)
  }

  /// A client that writes through root's daemon must not use the blocks that the file system reserves for root.
  @Test(.asRoot, .loopDevices, arguments: ["passthrough=on", "passthrough=off"])
  func userWrite_stopsBeforeBlocksReservedForRoot(options: String) throws {
    let view = try MountedView("allow_other,\(options)") { root in
      // Half of the blocks are reserved for root.
      let made = Shell.run(
        "truncate -s 16M '\(root).image' && mkfs.ext4 -q -m 50 -O ^has_journal '\(root).image' && mount -o loop '\(root).image' '\(root)'"
      )
      try #require(made.status == 0, "\(made.complaint)")
      chmod(root, 0o777)
    }
    var space = statvfs()
    #expect(statvfs(view.mountPoint, &space) == 0)
    let available = Int(space.f_bavail * space.f_frsize)
    #expect(available < Int(space.f_bfree * space.f_frsize) - (4 << 20))
    let outcome = PythonProgram(
      """
      file = os.open("large.bin", os.O_CREAT | os.O_WRONLY, 0o644)
      written = 0
      try:
        while written < 16 << 20: written += os.write(file, bytes(65536))
      except OSError as error: print(error.errno)
      """, as: 61001, in: view.mountPoint
    ).run()
    #expect(outcome.text == "\(ENOSPC)", "\(outcome.complaint)")
    let size = Int(try #require(status(view.real("large.bin"))?.st_size))
    #expect(size <= available && size > available / 2, "\(size) of \(available) bytes")
  }

  @Test(.asRoot) func changes_onReadOnlyBackingFileSystem_failWithEROFS() throws {
    let view = try MountedView { root in
      try #require(mountTemporary(root, "size=1m"))
      try put("kept", at: "\(root)/notes.txt")
      try put("x", at: "\(root)/Letter.rtfd/TXT.rtf")
      try #require(Shell.run(["mount", "-o", "remount,ro", root]).status == 0)
    }
    expectReadOnly(view)
  }

  @Test func changes_onReadOnlyMount_failWithEROFS() throws {
    let view = try MountedView("ro") { root in
      try put("kept", at: "\(root)/notes.txt")
      try put("x", at: "\(root)/Letter.rtfd/TXT.rtf")
    }
    expectReadOnly(view)
  }

  private func expectReadOnly(_ view: MountedView) {
    #expect(failure { open(view.at("notes"), O_WRONLY) } == .readOnlyFileSystem)
    #expect(failure { open(view.at("new"), O_WRONLY | O_CREAT, 0o644) } == .readOnlyFileSystem)
    #expect(failure { mkdir(view.at("new"), 0o755) } == .readOnlyFileSystem)
    #expect(failure { unlink(view.at("notes")) } == .readOnlyFileSystem)
    #expect(failure { unlink(view.at("Letter")) } == .readOnlyFileSystem)
    #expect(failure { rename(view.at("notes"), view.at("new")) } == .readOnlyFileSystem)
    #expect(failure { chmod(view.at("notes"), 0o600) } == .readOnlyFileSystem)
    #expect(failure { truncate(view.at("notes"), 0) } == .readOnlyFileSystem)
    #expect(setAttribute("user.tag", to: [1], of: view.at("notes")) == .readOnlyFileSystem)
    #expect(text(view.at("notes")) == "kept")
    #expect(view.realListing() == ["notes.txt", "Letter.rtfd"])
  }

  @Test(.asRoot) func nestedFileSystem_keepsItsBoundaryAndFreeSpace() throws {
    let view = try MountedView { root in
      try put("x", at: "\(root)/notes.txt")
      try #require(mountTemporary("\(root)/other", "size=3m"))
      try put("y", at: "\(root)/other/inner.txt")
    }
    #expect(view.listing("other") == ["inner"])
    #expect(failure { rename(view.at("notes"), view.at("other/notes")) } == .improperLink)
    #expect(failure { link(view.at("notes"), view.at("other/notes")) } == .improperLink)
    #expect(view.shell("mv notes other/letter").status == 0)
    #expect(view.realListing("other").contains("letter") || view.realListing("other").contains("letter.txt"))
    // statvfs(3) reports the free space of the file system at the path.
    var (inside, outside) = (statvfs(), statvfs())
    #expect(statvfs(view.at("other"), &inside) == 0)
    #expect(statvfs(view.real("other"), &outside) == 0)
    #expect(inside.f_blocks * inside.f_frsize == outside.f_blocks * outside.f_frsize)
    #expect(inside.f_blocks * inside.f_frsize == 3 << 20)
    #expect(failure { rmdir(view.at("other")) } == .resourceBusy)
  }

  @Test func statfs_reportsBackingFileSystem() throws {
    let view = try MountedView()
    var (shown, real) = (statvfs(), statvfs())
    #expect(statvfs(view.mountPoint, &shown) == 0)
    #expect(statvfs(view.source, &real) == 0)
    #expect(
      shown.f_blocks == real.f_blocks && shown.f_bsize == real.f_bsize && shown.f_frsize == real.f_frsize)
    #expect(shown.f_files == real.f_files)
    #expect(shown.f_namemax == 255)
    #expect(view.shell("df -P . | tail -1").text.hasPrefix(view.source))
  }

  @Test func errors_areThoseOfBackingFileSystem() throws {
    let view = try MountedView { root in
      try put("x", at: "\(root)/notes.txt")
      try put("x", at: "\(root)/Full/x")
    }
    #expect(failure { rmdir(view.at("Full")) } == .directoryNotEmpty)
    #expect(failure { rmdir(view.at("notes")) } == .notDirectory)
    #expect(failure { rename(view.at("Full"), view.at("Full/inner")) } == .invalidArgument)
    #expect(failure { rename(view.at("Full"), view.at("notes")) } == .notDirectory)
    #expect(failure { rename(view.at("notes"), view.at("Full")) } == .isDirectory)
    #expect(failure { link(view.at("Full"), view.at("link")) } == .notPermitted)
    var target = [CChar](repeating: 0, count: 16)
    #expect(failure { CInt(truncatingIfNeeded: readlink(view.at("notes"), &target, 16)) } == .invalidArgument)
    #expect(failure { unlink(view.at("absent")) } == .noSuchFileOrDirectory)
    #expect(failure { mkdir(view.at(String(repeating: "n", count: 256)), 0o755) } == .fileNameTooLong)
  }
}

/// Backing file systems that refuse the flags of renameat2, as many in FUSE do.
@Suite(
  .mounting, .asRoot,
  .enabled(
    if: Shell.run(["which", "bindfs"]).status == 0, "There is no bindfs here, whose refusal is tested."))
struct RefusedFlagsTests {
  @Test func rename_withoutSupportForRenameFlags_succeedsAndReplacesNothing() throws {
    let view = try MountedView { root in
      try put("a", at: "\(root)-store/report.pdf")
      try put("b", at: "\(root)-store/taken.csv")
      try put("c", at: "\(root)-store/Letter.rtfd/TXT.rtf")
      try #require(Shell.run(["bindfs", "\(root)-store", root]).status == 0)
    }
    #expect(rename(view.at("report"), view.at("paper")) == 0)
    #expect(view.realListing().contains("paper.pdf"))
    let refused = view.shell("mv -n paper taken.csv; cat taken.csv")
    #expect(refused.text == "b", "\(refused.complaint)")
    #expect(view.shell("rm Letter").status == 0)
    #expect(!view.realListing().contains("Letter.rtfd"))
  }
}
