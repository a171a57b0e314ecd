import Glibc
import SystemPackage
import Testing

/// Directories that are at two places of the backing tree. (`mount --bind`)
@Suite(.mounting, .asRoot) struct BindMountTests {
  private func bind(_ directory: String, at other: String) throws {
    try #require(mount(directory, other, nil, UInt(MS_BIND), nil) == 0)
  }

  /// Each program comes by one of the two, and the kernel has the directory at the one that was looked up last.
  @Test(.needing("python3")) func programsAtBothPlaces_areServed() throws {
    let view = try MountedView { root in
      for name in ["a", "b"] { makeDirectory("\(root)/\(name)/shared") }
    }
    try bind(view.real("a/shared"), at: view.real("b/shared"))
    defer { umount2(view.real("b/shared"), CInt(MNT_DETACH)) }
    let place = try TemporaryDirectory()
    let programs = ["a", "b"].map { name in
      PythonProgram(
        """
        # The kernel itself refuses (ESTALE) to move the dentry of the directory while its lock is held, and looks it up once more.
        def retried(call, *arguments):
            for left in reversed(range(3)):
                try: return call(*arguments)
                except OSError as error:
                    if error.errno != errno.ESTALE or not left: raise
        try:
            open("\(place.path(name))", "w").close()
            while len(os.listdir("\(place.root)")) < 2: time.sleep(0.001)
            for number in range(200):
                retried(os.mkdir, f"\(name)/shared/\(name){number}")
                retried(os.rmdir, f"\(name)/shared/\(name){number}")
        except OSError as error:
            open("\(place.path(name)).error", "w").write(str(error))
            sys.exit(1)
        """, in: view.mountPoint
      ).start()
    }
    for (program, name) in zip(programs, ["a", "b"]) {
      #expect(program.wait() == 0, "\(text(place.path("\(name).error")) ?? "")")
    }
    #expect(names(view.real("a/shared")).isEmpty)
  }

  /// The kernel has a directory at one place only.
  @Test func directoryBelowItself_isStaleThereAndUsableAbove() throws {
    let view = try MountedView { root in
      try put("text", at: "\(root)/Outer/notes.txt")
      makeDirectory("\(root)/Outer/Inner/Again")
    }
    try bind(view.real("Outer"), at: view.real("Outer/Inner/Again"))
    defer { umount2(view.real("Outer/Inner/Again"), CInt(MNT_DETACH)) }
    for _ in 0..<3 {
      var status = stat()
      #expect(failure { stat(view.at("Outer/Inner/Again"), &status) } == .staleNFSFileHandle)
      #expect(text(view.at("Outer/notes")) == "text")
      #expect(mkdir(view.at("Outer/Inner/made"), 0o755) == 0 && rmdir(view.at("Outer/Inner/made")) == 0)
      #expect(view.listing("Outer/Inner").contains("Again"))
    }
  }
}
