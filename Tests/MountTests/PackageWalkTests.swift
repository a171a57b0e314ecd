import Glibc
import SystemPackage
import Testing

/// How often the daemon walks a package, and that what a walk found is shown to no client that may not see it.
@Suite(.mounting) struct PackageWalkTests {
  private static let anna: uid_t = 61001
  private static let bert: uid_t = 61002

  private func view(_ options: String = "") throws -> MountedView {
    try MountedView(options) { root in
      chmod(root, 0o755)
      try PackageTree.album(in: root)
    }
  }

  /// A view for all with a package that no walk believes to be changing still: nothing in it changed for three seconds. Its
  /// first 4 KiB have the content of both files: times of whole seconds need no extended header.
  private func settledView(_ build: (String) throws -> Void = { _ in }) throws -> MountedView {
    let view = try MountedView("allow_other") { root in
      chmod(root, 0o777)
      try put("secret", at: "\(root)/Letter.rtfd/Inner/TXT.rtf")
      try put("text", at: "\(root)/Letter.rtfd/TXT.rtf")
      try build("\(root)/Letter.rtfd")
      try #require(Shell.run("find '\(root)' -exec touch -d '2003-04-05 06:07:08' {} +").status == 0)
    }
    usleep(3_100_000)
    return view
  }

  private func walks(_ view: MountedView) throws -> Int { try view.reportedNumber("packages walked") }

  /// Opens a package and reads so much from its beginning. - Returns: what was read, or the error's name.
  private func beginning(of name: String, _ count: Int = 4096, in view: MountedView, as user: uid_t? = nil)
    -> String
  {
    PythonProgram(
      """
      try:
          file = os.open("\(name)", os.O_RDONLY)
          sys.stdout.write(os.read(file, \(count)).decode("latin-1"))
      except OSError as error: print(errno.errorcode[error.errno])
      """, as: user, in: view.mountPoint
    ).run().text
  }

  // MARK: - Count

  @Test func measuredPackage_whenOpened_isNotWalkedAgain() throws {
    let view = try view()
    usleep(3_100_000)
    #expect(status(view.at("Album"))?.isRegular == true)
    #expect(try walks(view) == 1)
    let file = try OpenFile(view.at("Album"))
    let beginning = try #require(file.bytes(4096, at: 0))
    #expect(beginning[515...].starts(with: "comment=displayfs:com.apple.photos.library\n".utf8))
    #expect(try walks(view) == 1)
    // The rest takes a walk with the client's rights.
    let all = try #require(contents(view.at("Album")))
    #expect(try walks(view) == 2)
    #expect(all.starts(with: beginning) && all.count == Int(file.status.st_size))
  }

  @Test func packageChangedSinceMeasured_whenOpened_isWalkedAgain() throws {
    let view = try view()
    usleep(3_100_000)
    #expect(status(view.at("Album"))?.isRegular == true)
    let before = try walks(view)
    try put("new", at: view.real("Album.photoslibrary/0 comes first"))
    let stream = beginning(of: "Album", in: view)
    #expect(stream.contains("./0 comes first"))
    #expect(try walks(view) > before)
  }

  /// The beginning holds the content of this file. Another program writes to the file in place, so the directory's times do not
  /// change. A measurement that took long stays valid meanwhile.
  @Test(.tracing) func fileChangedSincePackageWasMeasured_isReadAsItIs() throws {
    let view = try settledView()
    let tracer = try slowed(view)
    #expect(status(view.at("Letter"))?.isRegular == true)
    tracer.stop()
    let file = view.real("Letter.rtfd/TXT.rtf")
    let written = try OpenFile(file, O_WRONLY)
    #expect(written.write("TEXT", at: 0) == 4)
    #expect(beginning(of: "Letter", in: view).contains("secret"))
    // The current time needs an extended header, which moves the content.
    #expect(beginning(of: "Letter", 8192, in: view).contains("TEXT"))
  }

  @Test func packageTakingNameOfMeasuredOne_isReadAsItIs() throws {
    let view = try settledView { package in
      let other = String(package.dropLast("Letter.rtfd".count)) + "Other.rtfd"
      try put("other", at: "\(other)/TXT.rtf")
    }
    #expect(status(view.at("Letter"))?.isRegular == true)
    #expect(rename(view.real("Letter.rtfd"), view.real("Gone.rtfd")) == 0)
    #expect(rename(view.real("Other.rtfd"), view.real("Letter.rtfd")) == 0)
    #expect(eventually { beginning(of: "Letter", in: view).contains("other") })
    #expect(!beginning(of: "Letter", in: view).contains("secret"))
  }

  // MARK: - Threads at the same package

  /// Makes each directory of a package take a tenth of a second.
  private func slowed(_ view: MountedView) throws -> Tracer {
    try Tracer(of: try #require(view.daemon), at: "getdents64", "delay_enter=100000")
  }

  @Test(.tracing) func threadsMeasuringPackageAtOnce_walkItOnce() throws {
    let view = try view()
    _ = status(view.at("Album"))
    try put("new", at: view.real("Album.photoslibrary/new"))
    let before = try walks(view)
    let tracer = try slowed(view)
    let outcome = PythonProgram(
      """
      sizes = []
      def measure(): sizes.append(os.stat("Album").st_size)
      threads = [threading.Thread(target=measure) for _ in range(8)]
      for thread in threads: thread.start()
      for thread in threads: thread.join()
      print(len(sizes), len(set(sizes)), min(sizes) > 1024)
      """, in: view.mountPoint
    ).run()
    tracer.stop()
    #expect(outcome.text == "8 1 True", "\(outcome.complaint)")
    #expect(try walks(view) == before + 1)
  }

  @Test(.tracing, .asRoot) func usersMeasuringPackageAtOnce_walkItSeparately() throws {
    let view = try view("allow_other")
    _ = status(view.at("Album"))
    try put("new", at: view.real("Album.photoslibrary/new"))
    let before = try walks(view)
    let tracer = try slowed(view)
    let outcome = PythonProgram(
      """
      import ctypes, threading
      start = threading.Barrier(2)
      def measure(user):
          # Of this thread alone.
          ctypes.CDLL(None).setfsuid(user)
          start.wait()
          os.stat("Album")
      threads = [threading.Thread(target=measure, args=(user,)) for user in (\(Self.anna), \(Self.bert))]
      for thread in threads: thread.start()
      for thread in threads: thread.join()
      """, in: view.mountPoint
    ).run()
    tracer.stop()
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(try walks(view) == before + 2)
  }

  @Test(.tracing) func threadWaitingForWalkOfKilledClient_walksPackageItself() throws {
    let view = try view()
    let size = try #require(status(view.at("Album"))?.st_size)
    try put("new", at: view.real("Album.photoslibrary/new"))
    let tracer = try slowed(view)
    let killed = PythonProgram("os.stat('Album')", in: view.mountPoint).start()
    usleep(500_000)
    let waiting = Shell.start("stat -c %s '\(view.at("Album"))' >'\(view.source)/size'")
    usleep(300_000)
    for process in [killed.id] + children(of: killed.id) { kill(process, SIGKILL) }
    killed.wait()
    waiting.wait()
    tracer.stop()
    // A header of three blocks and one of data.
    #expect(text("\(view.source)/size") == "\(size + 2048)\n")
  }

  // MARK: - Rights

  @Test(.asRoot) func packageOfOneUser_isWalkedOnceForThatUser() throws {
    let view = try settledView { package in
      for path in ["", "/Inner", "/TXT.rtf", "/Inner/TXT.rtf"] {
        chown(package + path, Self.anna, Self.anna)
        chmod(package + path, path.hasSuffix(".rtf") ? 0o600 : 0o700)
      }
    }
    #expect(status(view.at("Letter"))?.isRegular == true)
    #expect(beginning(of: "Letter", in: view, as: Self.anna).contains("secret"))
    #expect(try walks(view) == 1)
    #expect(beginning(of: "Letter", in: view, as: Self.bert) == "EACCES")
  }

  @Test(.asRoot) func directoryMadePrivateSincePackageWasMeasured_isRefused() throws {
    let view = try settledView()
    for mode: mode_t in [0o700, 0o744, 0o711] {
      chmod(view.real("Letter.rtfd/Inner"), 0o755)
      #expect(status(view.at("Letter"))?.isRegular == true)
      #expect(beginning(of: "Letter", in: view, as: Self.bert).contains("secret"))
      chmod(view.real("Letter.rtfd/Inner"), mode)
      #expect(beginning(of: "Letter", in: view, as: Self.bert) == "EACCES", "\(String(mode, radix: 8))")
    }
  }

  /// The list denies one user what the permission bits grant to all.
  @Test(.asRoot) func directoryWithDenyingAccessList_isRefusedToDeniedUser() throws {
    let none = [UInt8](repeating: 0xff, count: 4)
    let user = withUnsafeBytes(of: Self.bert.littleEndian) { Array($0) }
    // The owner, another user, the group, the mask, others.
    let list: [UInt8] =
      [2, 0, 0, 0] + [1, 0, 7, 0] + none + [2, 0, 0, 0] + user + [4, 0, 5, 0] + none + [0x10, 0, 5, 0] + none
      + [0x20, 0, 5, 0] + none
    let view = try settledView { package in
      try #require(setAttribute("system.posix_acl_access", to: list, of: "\(package)/Inner") == nil)
    }
    #expect(status(view.at("Letter"))?.isRegular == true)
    #expect(beginning(of: "Letter", in: view, as: Self.bert) == "EACCES")
    #expect(try walks(view) == 2)
    #expect(beginning(of: "Letter", in: view, as: Self.anna).contains("secret"))
    #expect(try walks(view) == 2)
  }

  @Test(.asRoot) func fileMadePrivateSincePackageWasMeasured_isRefused() throws {
    let view = try settledView()
    #expect(status(view.at("Letter"))?.isRegular == true)
    chmod(view.real("Letter.rtfd/Inner/TXT.rtf"), 0o600)
    #expect(beginning(of: "Letter", in: view, as: Self.bert) == "EACCES")
    #expect(beginning(of: "Letter", in: view).contains("secret"))
  }

  /// Attributes are in the stream's headers: no file is opened for them when they are read.
  @Test(.asRoot) func attributesOfUnreadableFile_areRefused() throws {
    let view = try settledView { package in
      try #require(setAttribute("user.tag", to: Array("private".utf8), of: "\(package)/Inner/TXT.rtf") == nil)
      chmod("\(package)/Inner/TXT.rtf", 0o600)
    }
    #expect(status(view.at("Letter"))?.isRegular == true)
    #expect(beginning(of: "Letter", in: view).contains("private"))
    #expect(beginning(of: "Letter", in: view, as: Self.bert) == "EACCES")
  }
}
