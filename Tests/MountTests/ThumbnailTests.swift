import CLinux
import Glibc
import SamplePictures
import SystemPackage
import Testing

/// `displayfs thumbnail`, which file managers run for the packages of a view.
@Suite(.mounting, .gdkPixbuf) struct ThumbnailTests {
  private static let (red, green, blue): ([UInt8], [UInt8], [UInt8]) = (
    [200, 0, 0, 255], [0, 200, 0, 255], [0, 0, 200, 255]
  )

  /// An application with an icon of three sizes in three colors, and a document with a preview.
  private static func build(_ root: String) throws {
    let application = "\(root)/Chess.app"
    try TestTree.application(
      application, named: "Chess", more: [("CFBundleIconFile", "<string>AppIcon</string>")])
    let icon = SamplePicture.icon([
      ("ic07", SamplePicture.png(128, red)), ("ic08", SamplePicture.png(256, green)),
      ("ic04", SamplePicture.argb(16, blue)),
    ])
    try put(icon, at: "\(application)/Contents/Resources/AppIcon.icns")
    try put(SamplePicture.png(300, blue), at: "\(root)/Letter.pages/preview.png")
    try put("x", at: "\(root)/Plain.rtfd/TXT.rtf")
    try put("x", at: "\(root)/notes.txt")
  }

  private let output: TemporaryDirectory

  init() throws { output = try TemporaryDirectory() }

  /// The picture that the command writes; nil when it fails.
  private func picture(
    _ path: String, _ size: Int, user: String? = nil, with variables: [String: String] = [:]
  ) -> [UInt8]? {
    let directory = output.path(user ?? "own")
    makeDirectory(directory)
    chmod(directory, 0o777)
    let command = [Displayfs.path, "thumbnail", "--size", "\(size)", path, "\(directory)/out.png"]
    unlink("\(directory)/out.png")
    let outcome = user.map { OrdinaryUser.run($0, command) } ?? Shell.run(command, with: variables)
    let written = contents("\(directory)/out.png")
    #expect((outcome.status == 0) == (written != nil), "\(outcome.errorText)")
    return written
  }

  @Test func thumbnail_ofApplication_isTheSizeOfItsIconThatFits() throws {
    let view = try MountedView(build: Self.build)
    for (size, side, color) in [(128, 128, Self.red), (200, 200, Self.green), (16, 16, Self.blue)] {
      let expected = SamplePicture.png(side, color)
      #expect(picture(view.at("Chess"), size) == expected)
      #expect(picture(view.at("Chess.app"), size) == expected, "the directory")
      #expect(picture(view.real("Chess.app"), size) == expected, "without the view")
    }
    // It is never made larger.
    #expect(picture(view.at("Chess"), 1000) == SamplePicture.png(256, Self.green))
  }

  @Test func thumbnail_ofCopiedStream_isThatOfThePackage() throws {
    let view = try MountedView(build: Self.build)
    for (name, expected) in [
      ("Chess", SamplePicture.png(128, Self.red)), ("Letter", SamplePicture.png(128, Self.blue)),
    ] {
      let copy = output.path(name)
      try put(try #require(contents(view.at(name))), at: copy)
      #expect(picture(copy, 128) == expected)
      #expect(picture(view.at(name), 128) == expected)
    }
  }

  /// A file of another file system may have any attributes.
  @Test(.extendedAttributes) func thumbnail_ofFileThatPassesForAPackage_isNotThatOfAnother() throws {
    try Self.build(output.root)
    try put("x", at: output.path("inner/file"))
    for (name, value) in [
      ("kind", "package"), ("realname", "../Chess.app"), ("realpath", output.path("Chess.app")),
    ] {
      try #require(
        setAttribute("user.displayfs.\(name)", to: value.utf8, of: output.path("inner/file")) == nil)
    }
    #expect(picture(output.path("inner/file"), 128) == nil)
    #expect(picture(output.path("Chess.app"), 128) != nil)
  }

  /// Where both names are one, the inside is reached by the path in the backing tree.
  @Test func thumbnail_withoutRealNameInView_isFoundInTheBackingTree() throws {
    let view = try MountedView("extensions=show", build: Self.build)
    #expect(picture(view.at("Chess.app"), 128) == SamplePicture.png(128, Self.red))
  }

  @Test func thumbnail_ofCustomIcon_isInTheResourceFork() throws {
    let fork = SamplePicture.resourceFork(
      customIcon: SamplePicture.icon([("ic07", SamplePicture.png(128, Self.green))]))
    let view = try MountedView { root in
      try Self.build(root)
      for name in ["Chess.app/._Icon\r", "Folder/._Icon\r", "._notes.txt"] {
        try put(SamplePicture.appleDouble(fork), at: "\(root)/\(name)")
      }
      try put("", at: "\(root)/Chess.app/Icon\r")
    }
    for path in ["Chess", "Folder", "notes"] {
      #expect(picture(view.at(path), 128) == SamplePicture.png(128, Self.green), "\(path)")
    }
  }

  @Test(.asRoot, .programForAll, .enabled(if: OrdinaryUser.canMount, "An ordinary user cannot mount here."))
  func thumbnail_byOrdinaryUser_isMade() throws {
    let view = try MountedView(build: Self.build)
    view.unmount()
    #expect(OrdinaryUser.mount(view).status == 0)
    #expect(picture(view.at("Chess"), 128, user: OrdinaryUser.owner) == SamplePicture.png(128, Self.red))
    #expect(picture(view.at("Letter"), 128, user: OrdinaryUser.owner) == SamplePicture.png(128, Self.blue))
  }

  @Test func thumbnail_ofOtherThings_failsAndWritesNothing() throws {
    let view = try MountedView(build: Self.build)
    for path in ["Plain", "notes", "absent"] { #expect(picture(view.at(path), 128) == nil) }
    let status = Displayfs.run(["thumbnail", view.at("Plain"), output.path("x")]).status
    #expect(status == 1)
    for size in ["0", "1025", "-1", "x"] {
      #expect(Displayfs.run(["thumbnail", "--size", size, view.at("Chess"), output.path("x")]).status == 1)
    }
  }

  @Test func thumbnail_withDamagedPicture_takesAnotherSize() throws {
    let view = try MountedView { root in
      try Self.build(root)
      let damaged = Array(SamplePicture.png(128, Self.red).prefix(60))
      let icon = SamplePicture.icon([("ic07", damaged), ("ic08", SamplePicture.png(256, Self.green))])
      try put(icon, at: "\(root)/Chess.app/Contents/Resources/AppIcon.icns")
    }
    #expect(picture(view.at("Chess"), 128) == SamplePicture.png(128, Self.green))
  }

  /// As applications of OS X 10.5 and 10.6 have it. Without OpenJPEG, for which a library stands that cannot be loaded, the
  /// smaller one is taken.
  @Test(.needing("opj_compress")) func thumbnail_ofJPEG2000InAnIcon_isMade() throws {
    let view = try MountedView { root in
      try Self.build(root)
      let large = try JPEG2000.encoded(SamplePicture.png(256, Self.green))
      let icon = SamplePicture.icon([("ic08", large), ("ic07", SamplePicture.png(128, Self.red))])
      try put(icon, at: "\(root)/Chess.app/Contents/Resources/AppIcon.icns")
    }
    #expect(picture(view.at("Chess"), 256) == SamplePicture.png(256, Self.green))
    #expect(picture(view.at("Chess"), 128) == SamplePicture.png(128, Self.red))
    try put("none", at: output.path("libraries/libopenjp2.so.7"))
    let without = picture(view.at("Chess"), 256, with: ["LD_LIBRARY_PATH": output.path("libraries")])
    #expect(without == SamplePicture.png(128, Self.red))
  }

  /// A PNG of a hundred bytes that says to have 2.5 gigapixels.
  @Test(.enabled(if: !Sanitizer.isAnyUsed, "A sanitizer's address space cannot be limited."))
  func thumbnail_ofHugePicture_failsInBoundedTime() throws {
    let view = try MountedView { root in
      try put(SamplePicture.png(1, claiming: 50_000), at: "\(root)/Letter.pages/preview.png")
    }
    let started = ContinuousClock.now
    #expect(picture(view.at("Letter"), 128) == nil)
    #expect(ContinuousClock.now - started < .seconds(30))
  }

  // MARK: What desktops are told

  @Test func thumbnailer_listsTheTypesOfPackages() throws {
    let script = """
      here=Mount; . Mount/steps.sh; . Mount/files.sh
      fill_in /usr share/thumbnailers/displayfs.thumbnailer <Mount/file-managers/displayfs.thumbnailer.in
      """
    let entry = Shell.run(script, in: repository).text.split(separator: "\n")
    let types = try #require(text("\(repository)/Mount/mime/displayfs.xml")).split(
      separator: "<mime-type type=\""
    )
    .dropFirst().map { $0.prefix { $0 != "\"" } }
    #expect(entry.first == "[Thumbnailer Entry]")
    #expect(entry.contains("TryExec=/usr/bin/displayfs"))
    #expect(entry.contains("Exec=/usr/bin/displayfs thumbnail --size %s %i %o"))
    #expect(entry.contains { $0 == "MimeType=" + types.map { "\($0);" }.joined() })
  }
}
