import Glibc
import SystemPackage
import Testing

/// Files that clients open for writing, and what else may happen to them: mappings, renames, mounts, and writes beneath the mount.
@Suite(.mounting) struct OpenForWritingTests {
  private func view(_ options: String = "") throws -> MountedView {
    try MountedView(options) { root in
      try put("0123", at: "\(root)/notes.txt")
      try put("other", at: "\(root)/other.txt")
    }
  }

  private func append(_ content: String, to path: String) throws {
    #expect(try OpenFile(path, O_WRONLY | O_APPEND).write(content) == content.utf8.count)
  }

  /// A mapping outlives the descriptor by which it was made. With passthrough it holds the backing file alone, so the kernel sends
  /// RELEASE before the mapping ends.
  @Test(arguments: ["", "passthrough=off"])
  func timesOfMappedFile_thatChangesAfterClose_areCurrent(options: String) throws {
    let view = try view(options)
    let old = timespec(tv_sec: 1_000_000_000, tv_nsec: 0)
    #expect(utimensat(AT_FDCWD, view.at("notes.txt"), [old, old], 0) == 0)
    func time(_ path: String) throws -> Int { try #require(status(path)).st_mtim.tv_sec }
    #expect(try time(view.at("notes")) == old.tv_sec)
    let mapped = try {
      let file = try OpenFile(view.at("notes"), O_RDWR)
      return mmap(nil, 4, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0)
    }()
    let memory = try #require(mapped != MAP_FAILED ? mapped : nil)
    // Long enough for the daemon to handle RELEASE. After that, the kernel caches the times once more.
    usleep(100_000)
    #expect(try time(view.at("notes")) == old.tv_sec)
    memory.storeBytes(of: UInt8(ascii: "x"), as: UInt8.self)
    munmap(memory, 4)
    try waitUntil { text(view.real("notes.txt")) == "x123" }
    try waitUntil { try time(view.at("notes")) == time(view.real("notes.txt")) }
  }

  @Test func listOfHiddenNames_thatIsWrittenAfterItsRename_counts() throws {
    let view = try view()
    #expect(view.listing() == ["notes", "other"])
    do {
      let file = try OpenFile(view.at("list.txt"), O_WRONLY | O_CREAT)
      #expect(rename(view.at("list.txt"), view.at(".hidden")) == 0)
      #expect(view.listing() == ["notes", "other"])
      #expect(file.write("notes.txt\n") == 10)
    }
    try waitUntil { view.listing() == ["other"] }
  }

  @Test func writesBeneath_whileClientHasFileOpen_areVisible() throws {
    let view = try view()
    let file = try OpenFile(view.at("notes"), O_RDWR | O_APPEND)
    for round in 1...5 {
      #expect(file.write("mine") == 4)
      try append("beneath", to: view.real("notes.txt"))
      try waitUntil { status(view.at("notes"))?.st_size == off_t(4 + 11 * round) }
    }
  }

  @Test(.asRoot) func fileThatIsMountedAtAName_isOpened_whateverItCovers() throws {
    let view = try view("allow_other")
    #expect(chmod(view.real("other.txt"), 0o666) == 0)
    #expect(chmod(view.real("notes.txt"), 0o600) == 0)
    #expect(mkfifo(view.real("queue.txt"), 0o600) == 0)
    for covered in ["notes.txt", "queue.txt"] {
      #expect(mount(view.real("other.txt"), view.real(covered), nil, UInt(MS_BIND), nil) == 0)
      defer { umount2(view.real(covered), CInt(MNT_DETACH)) }
      try waitUntil { text(view.at(covered)) == text(view.real("other.txt")) }
      let outcome = view.run(as: 1000, "printf ! >>\(covered)")
      #expect(outcome.status == 0, "\(covered): \(outcome.errorText)")
    }
    #expect(text(view.real("other.txt")) == "other!!")
    #expect(text(view.real("notes.txt")) == "0123")
  }

  @Test(.asRoot) func fileThatIsMountedReadOnlyOnItself_isNotWritten() throws {
    let view = try view()
    let file = view.real("notes.txt")
    #expect(mount(file, file, nil, UInt(MS_BIND), nil) == 0)
    defer { umount2(file, CInt(MNT_DETACH)) }
    #expect(mount("none", file, nil, UInt(MS_REMOUNT | MS_BIND | MS_RDONLY), nil) == 0)
    #expect(text(view.at("notes")) == "0123")
    #expect(failure { open(view.at("notes"), O_WRONLY) } == .readOnlyFileSystem)
    #expect(failure { open(view.at("notes"), O_WRONLY | O_TRUNC) } == .readOnlyFileSystem)
    #expect(text(view.at("notes")) == "0123")
  }

  @Test(.asRoot) func mountThatBecomesReadOnly_isNotWritten() throws {
    let view = try MountedView { root in
      #expect(mount(root, root, nil, UInt(MS_BIND), nil) == 0)
      try put("0123", at: "\(root)/notes.txt")
    }
    defer { umount2(view.source, CInt(MNT_DETACH)) }
    try append("4", to: view.at("notes"))
    // The remount fails while the daemon has the file open for writing.
    try waitUntil { mount("none", view.source, nil, UInt(MS_REMOUNT | MS_BIND | MS_RDONLY), nil) == 0 }
    #expect(failure { open(view.at("notes"), O_WRONLY) } == .readOnlyFileSystem)
    #expect(failure { open(view.at("new.txt"), O_WRONLY | O_CREAT, 0o644) } == .readOnlyFileSystem)
    #expect(text(view.at("notes")) == "01234")
  }
}
