import Glibc
import Testing

/// Views of a volume of HFS+, which folds case and stores names decomposed. Only a kernel with hfsplus mounts it:
/// `Mount/kernels --filter HFSPlusTests`.
@Suite(.mounting, .asRoot, .hfsPlus) struct HFSPlusTests {
  /// Whether Linux shows the names of the volume as they are stored, or composes them.
  enum Names: String, CaseIterable {
    case stored = "nodecompose"
    case composed = "decompose"
  }

  /// A volume with `Résumé.txt` and `Calc.app`, and a view of it, for as long as this lives.
  private final class Volume {
    private let directory: TemporaryDirectory
    var root: String { directory.path("volume") }

    func at(_ path: String) -> String { directory.path("view/\(path)") }
    func real(_ path: String) -> String { "\(root)/\(path)" }
    func listing() -> Set<FileName> { names(at("")) }

    init(_ shown: Names, _ options: String) throws {
      directory = try TemporaryDirectory()
      let made = Shell.run(
        """
        set -e
        mkdir -p files/Calc.app/Contents/Resources volume view
        printf text >files/"$(printf 'R\\303\\251sum\\303\\251.txt')"
        echo '<plist><dict></dict></plist>' >files/Calc.app/Contents/Info.plist
        printf icon >files/Calc.app/Contents/Resources/Calc.icns
        xorriso -as mkisofs -quiet -hfsplus -V Mac -o image files
        python3 -c "$GROW"
        mount -t hfsplus -o loop,\(shown.rawValue) grown volume
        grep -q ' hfsplus rw' /proc/self/mounts
        """, in: directory.root, with: ["GROW": Self.grow])
      if made.status != 0 { throw MountedView.MountFailure(description: made.complaint) }
      let mounted = Displayfs.run(["mount", "-o", "language=en,\(options)", root, directory.path("view")])
      if mounted.status != 0 { throw MountedView.MountFailure(description: mounted.complaint) }
    }

    /// Takes the volume of HFS+ out of the image, where an ISO 9660 volume surrounds it, and appends free blocks: xorriso makes
    /// a volume that is full. (Apple TN1150: the volume header at 1024 and its copy 1024 bytes before the end, the allocation
    /// file with a bit for each block)
    private static let grow = """
      import struct
      image = open('image', 'rb').read()
      start = image.index(b'H+') - 1024
      block, old = struct.unpack_from('>II', image, start + 1024 + 40)
      bitmap = struct.unpack_from('>I', image, start + 1024 + 128)[0] * block
      blocks = block * 8
      volume = bytearray(image[start:start + old * block]) + bytes((blocks - old) * block)
      volume[bitmap:bitmap + block] = bytes(block)
      for number in [*range(old), blocks - 1]:
          volume[bitmap + number // 8] |= 0x80 >> number % 8
      struct.pack_into('>I', volume, 1024 + 4, 0x100)  # unmounted cleanly, not locked
      struct.pack_into('>II', volume, 1024 + 44, blocks, blocks - old - 1)
      struct.pack_into('>Q', volume, 1024 + 112, block)
      volume[-1024:-512] = volume[1024:1536]
      open('grown', 'wb').write(volume)
      """

    deinit {
      _ = Displayfs.run(["unmount", directory.path("view")])
      umount2(root, CInt(MNT_DETACH))
    }
  }

  private static let (nfc, nfd) = ("R\u{e9}sum\u{e9}", "Re\u{301}sume\u{301}")

  @Test(arguments: Names.allCases) func names_areComposedAndOpenByBothForms(shown: Names) throws {
    let volume = try Volume(shown, "matching=caseless")
    #expect(names(volume.root) == ["Calc.app", FileName("\(shown == .stored ? Self.nfd : Self.nfc).txt")])
    #expect(volume.listing() == ["Calc", FileName(Self.nfc)])
    for name in [Self.nfc, "\(Self.nfc).txt", "\(Self.nfd).txt", "R\u{c9}SUM\u{c9}.TXT"] {
      #expect(text(volume.at(name)) == "text", "\(name)")
    }
    #expect(text(volume.at("Calc.app/Contents/resources/calc.ICNS")) == "icon")
    #expect(text(volume.at("CALC.APP/contents/Resources/Calc.icns")) == "icon")
  }

  @Test(arguments: Names.allCases, ["canonical", "caseless"])
  func saves_keepStoredName(shown: Names, matching: String) throws {
    let volume = try Volume(shown, "matching=\(matching)")
    let before = names(volume.root)
    for (number, name) in [Self.nfc, "\(Self.nfc).txt", "\(Self.nfd).txt"].enumerated() {
      let outcome = Shell.run(
        """
        set -e
        cd "$VIEW"; echo one >"$NAME"; echo two >.new; mv .new "$NAME"; sed -i s/two/\(number)/ "$NAME"
        mkdir Sub; mv "$NAME" Sub; test -e Sub/"$NAME"; mv Sub/"$NAME" "$NAME"; rmdir Sub
        """, with: ["VIEW": volume.at(""), "NAME": name])
      #expect(outcome.status == 0, "\(name): \(outcome.complaint)")
      #expect(volume.listing() == ["Calc", FileName(Self.nfc)], "\(name)")
      #expect(text(volume.at(Self.nfc)) == "\(number)\n", "\(name)")
      // A real name that is typed in another form may move to another directory and back in that form.
      if name == Self.nfc { #expect(names(volume.root) == before) }
    }
    #expect(unlink(volume.at(Self.nfc)) == 0 && names(volume.root) == ["Calc.app"])
  }

  @Test(arguments: Names.allCases) func newName_isFoundByBothForms(shown: Names) throws {
    let volume = try Volume(shown, "matching=canonical")
    let (nfc, nfd) = ("\u{c9}t\u{e9}", "E\u{301}te\u{301}")
    try put("summer", at: volume.at(nfd))
    #expect(text(volume.at(nfc)) == "summer" && text(volume.at(nfd)) == "summer")
    #expect(volume.listing() == ["Calc", FileName(Self.nfc), FileName(nfc)])
    #expect(mkdir(volume.at(nfc), 0o755) != 0 && errno == EEXIST)
    #expect(rename(volume.at(nfc), volume.at("Hiver")) == 0)
    #expect(
      volume.listing() == ["Calc", FileName(Self.nfc), "Hiver"] && text(volume.at("Hiver")) == "summer")
  }

  /// The volume folds case where the view does not.
  @Test func fileOpenedOrReplacedByAnotherCase_isListedOnce() throws {
    let volume = try Volume(.stored, "matching=canonical,extensions=show")
    try put("old", at: volume.at("file.txt"))
    let listed = volume.listing()
    let file = open(volume.at("FILE.TXT"), O_WRONLY | O_CREAT | O_TRUNC, 0o644)
    #expect(file >= 0 && write(file, "new", 3) == 3)
    close(file)
    #expect(volume.listing() == listed && text(volume.at("file.txt")) == "new")
    try put("other", at: volume.at("other"))
    #expect(rename(volume.at("other"), volume.at("File.txt")) == 0)
    #expect(volume.listing().count == listed.count)
    #expect(
      volume.listing()
        == Set(names(volume.root).map { $0 == "Re\u{301}sume\u{301}.txt" ? "R\u{e9}sum\u{e9}.txt" : $0 }))
  }

  @Test(.birthTimes) func birthTime_isThatOfVolume() throws {
    let volume = try Volume(.stored, "")
    func birthTime(_ path: String) -> String { Shell.run("stat -c %w '\(path)'").text }
    #expect(birthTime(volume.real("Calc.app")).hasPrefix("2"))
    #expect(birthTime(volume.at("Calc")) == birthTime(volume.real("Calc.app")))
    #expect(birthTime(volume.at(Self.nfc)) == birthTime(volume.real("\(Self.nfd).txt")))
  }
}
