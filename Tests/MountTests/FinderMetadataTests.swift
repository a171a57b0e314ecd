import CLinux
import Glibc
import Testing

/// Finder info and DOS attributes in every store, on volumes for which no option announces any.
@Suite(.mounting) struct FinderMetadataTests {
  /// The stores that can be written by hand, each with a function that sets the flags of an entry of a directory.
  private static let stores:
    [(name: String, write: @Sendable (_ directory: String, _ name: String, _ flags: UInt16) throws -> Void)] =
      [
        (
          "plain",
          { _ = setAttribute("user.com.apple.FinderInfo", to: TestTree.finderInfo($2), of: "\($0)/\($1)") }
        ),
        (
          "netatalk",
          {
            _ = setAttribute(
              "user.org.netatalk.Metadata", to: TestTree.netatalk(TestTree.finderInfo($2)), of: "\($0)/\($1)")
          }
        ),
        (
          "Samba's stream",
          {
            _ = setAttribute(
              "user.DosStream.AFP_AfpInfo:$DATA", to: TestTree.afpInfo(TestTree.finderInfo($2)),
              of: "\($0)/\($1)")
          }
        ),
        ("AppleDouble", { try put(TestTree.appleDouble(TestTree.finderInfo($2)), at: "\($0)/._\($1)") }),
        (
          "netatalk 2",
          { try put(TestTree.appleDouble(TestTree.finderInfo($2)), at: "\($0)/.AppleDouble/\($1)") }
        ),
        (
          "Samba's depot",
          {
            _ = setAttribute("user.SAMBA_STREAMS", to: Array("1".utf8), of: "\($0)/\($1)")
            try put(TestTree.afpInfo(TestTree.finderInfo($2)), at: "\($0)/\(depotPath("\($0)/\($1)"))")
          }
        ),
      ]

  /// The path at which Samba keeps the Finder info of a file in the depot of its share, computed independently.
  /// `Mount/mac-stores` tests it with Samba itself.
  static func depotPath(_ file: String) -> String {
    let status = status(file)!
    func hexadecimal(_ byte: some FixedWidthInteger) -> String {
      (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
    }
    let key = [UInt64(status.st_dev), UInt64(status.st_ino)].flatMap { number in
      (0..<8).map { number >> ($0 * 8) & 0xff }
    }
    var hash: UInt64 = 0x238f_13af * 16
    for (index, byte) in key.enumerated() { hash = (hash + byte << (index * 5 % 24)) & 0xffff_ffff }
    hash = (1_103_515_243 * (hash & 0xffff_ffff) + 12345) & 0xffff_ffff
    return
      ".streams/\(hexadecimal(hash & 0xff))/\(hexadecimal(hash >> 8 & 0xff))/\(key.map(hexadecimal).joined())/:AFP_AfpInfo:$DATA"
  }

  @Test(arguments: 0..<6) func finderFlags_inEveryStore_areHonored(store: Int) throws {
    let write = Self.stores[store].write
    let view = try MountedView("extensions=hide") { root in
      for name in ["seen.txt", "unseen.txt", "bundle/data", "plain/data"] {
        try put("x", at: "\(root)/\(name)")
      }
      try write(root, "unseen.txt", 0x4000)
      try write(root, "bundle", 0x2000)
      try write(root, "plain", 0)
    }
    #expect(view.listing() == ["seen", "bundle", "plain"], "\(Self.stores[store].name)")
    #expect(status(view.at("bundle"))?.isRegular == true, "\(Self.stores[store].name)")
    #expect(status(view.at("plain"))?.isDirectory == true, "\(Self.stores[store].name)")
  }

  @Test(arguments: 0..<6) func renameWithTypedExtension_clearsHiddenFlagInExistingStore(store: Int) throws {
    let write = Self.stores[store].write
    let view = try MountedView("extensions=flag") { root in
      for name in ["a.txt", "b.txt"] {
        try put("x", at: "\(root)/\(name)")
        try write(root, name, 0x0412)
      }
    }
    #expect(view.listing() == ["a", "b"])
    #expect(view.shell("mv a c && mv b d.txt").status == 0)
    #expect(view.listing() == ["c", "d.txt"], "\(Self.stores[store].name)")
    let kept: [UInt8]?
    switch store {
    case 0: kept = attributeBytes("user.com.apple.FinderInfo", of: view.real("d.txt"))
    case 1:
      kept = attributeBytes("user.org.netatalk.Metadata", of: view.real("d.txt")).map { Array($0[122..<154]) }
    case 2:
      kept = attributeBytes("user.DosStream.AFP_AfpInfo:$DATA", of: view.real("d.txt")).map {
        Array($0[16..<48])
      }
    case 3: kept = contents(view.real("._d.txt")).map { Array($0[50..<82]) }
    case 5: kept = contents(view.real(Self.depotPath(view.real("d.txt")))).map { Array($0[16..<48]) }
    default: kept = contents(view.real(".AppleDouble/d.txt")).map { Array($0[50..<82]) }
    }
    #expect(kept == TestTree.finderInfo(0x0402), "only the one flag is cleared: \(Self.stores[store].name)")
    if store != 0 { #expect(attributeBytes("user.com.apple.FinderInfo", of: view.real("d.txt")) == nil) }
  }

  /// Clears the flag in a file's sidecar while some system calls on the sidecar take long, and acts on the sidecar meanwhile.
  private func clearingFlag(
    in view: MountedView, at call: String, _ delay: String, _ action: (_ sidecar: String) throws -> Void
  ) throws {
    #expect(view.listing() == ["b"])
    let sidecar = view.real("._d.txt")
    let tracer = try Tracer(of: try #require(view.daemon), at: call, delay, on: sidecar)
    let move = Shell.start("exec mv '\(view.at("b"))' '\(view.at("d.txt"))'")
    try waitUntil { isThere(sidecar) }
    try action(sidecar)
    move.wait()
    tracer.stop()
  }

  private func viewWithSidecar() throws -> MountedView {
    try MountedView("extensions=flag") { root in
      try put("x", at: "\(root)/b.txt")
      try put(TestTree.appleDouble(TestTree.finderInfo(0x0412)), at: "\(root)/._b.txt")
      makeDirectory("\(root)/.kept")
    }
  }

  @Test(.tracing) func clearedFlagInSidecar_undoesNoOtherChange() throws {
    let view = try viewWithSidecar()
    try clearingFlag(in: view, at: "pwrite64", "delay_enter=1000000") {
      usleep(500_000)
      let file = try OpenFile($0, O_WRONLY)
      #expect(file.write("TEXT", at: 50) == 4)
    }
    #expect(view.listing() == ["d.txt"])
    var info = TestTree.finderInfo(0x0402)
    info.replaceSubrange(0..<4, with: "TEXT".utf8)
    #expect(contents(view.real("._d.txt")).map { Array($0[50..<82]) } == info)
  }

  @Test(.tracing) func clearedFlagInSidecar_isWrittenToNoFileThatTookItsName() throws {
    let view = try viewWithSidecar()
    // Each file has its number in place of the name of the system.
    func file(_ number: Int) -> [UInt8] {
      var bytes = TestTree.appleDouble(TestTree.finderInfo(0x0412))
      bytes.replaceSubrange(8..<24, with: String(1_000_000_000_000_000 + number).utf8)
      return bytes
    }
    try clearingFlag(in: view, at: "pread64", "delay_exit=300000") { sidecar in
      for number in 0..<100 {
        let kept = view.real(".kept/\(number)")
        try put(file(number), at: kept)
        #expect(link(kept, kept + ".link") == 0 && rename(kept + ".link", sidecar) == 0)
        usleep(50_000)
      }
    }
    for number in 0..<100 {
      #expect(contents(view.real(".kept/\(number)")).map { Array($0[..<50]) } == Array(file(number)[..<50]))
    }
  }

  @Test func netatalkParentFile_describesItsDirectory() throws {
    let view = try MountedView { root in
      for name in ["bundle", "plain", "hidden"] { try put("x", at: "\(root)/\(name)/data") }
      try put("x", at: "\(root)/.AppleDouble/.Parent")
      for (name, flags) in [("bundle", 0x2000), ("plain", 0), ("hidden", 0x4000)] as [(String, UInt16)] {
        try put(
          TestTree.appleDouble(TestTree.finderInfo(flags)), at: "\(root)/\(name)/.AppleDouble/.Parent")
      }
    }
    #expect(view.listing() == ["bundle", "plain"])
    #expect(status(view.at("bundle"))?.isRegular == true)
    try put(
      TestTree.appleDouble(TestTree.finderInfo(0x4000)), at: view.real("plain/.AppleDouble/.Parent"))
    #expect(view.listing() == ["bundle"])
  }

  @Test func netatalkFile_writtenLater_takesEffect() throws {
    let view = try MountedView { root in
      for name in ["a.txt", "b.txt"] { try put("x", at: "\(root)/\(name)") }
    }
    #expect(view.listing() == ["a", "b"])
    let hidden = TestTree.appleDouble(TestTree.finderInfo(0x4000))
    try put(hidden, at: view.real(".AppleDouble/a.txt"))
    #expect(view.listing() == ["b"])
    try put(hidden, at: view.real(".AppleDouble/b.txt"))
    #expect(view.listing() == [])
    try put(TestTree.appleDouble(TestTree.finderInfo(0)), at: view.real(".AppleDouble/b.txt"))
    #expect(view.listing() == ["b"])
  }

  @Test func sambaDepotStream_writtenLater_takesEffect() throws {
    let view = try MountedView { try put("x", at: "\($0)/a.txt") }
    #expect(view.listing() == ["a"])
    // In Samba's order: the directory, the mark, then the stream.
    let stream = view.real(Self.depotPath(view.real("a.txt")))
    try put("", at: stream)
    #expect(setAttribute("user.SAMBA_STREAMS", to: Array("1".utf8), of: view.real("a.txt")) == nil)
    #expect(view.listing() == ["a"])
    try put(TestTree.afpInfo(TestTree.finderInfo(0x4000)), at: stream)
    #expect(view.listing() == [])
    // A Mac shows it again, which touches nothing but the stream.
    try put(TestTree.afpInfo(TestTree.finderInfo(0)), at: stream)
    #expect(eventually { view.listing() == ["a"] })
    unlink(stream)
    try put(TestTree.afpInfo(TestTree.finderInfo(0x4000)), at: stream)
    #expect(eventually { view.listing() == [] })
  }

  @Test func sambaDepotStream_ofUnmarkedFile_isIgnored() throws {
    let view = try MountedView("finder-info=on") { root in
      try put("x", at: "\(root)/a.txt")
      try put(
        TestTree.afpInfo(TestTree.finderInfo(0x4000)), at: "\(root)/\(Self.depotPath("\(root)/a.txt"))")
    }
    #expect(view.listing() == ["a"])
  }

  @Test func dosHiddenAttribute_inEveryVersion_hidesFile() throws {
    let view = try MountedView { root in
      for version in [UInt8(3), 4, 5] {
        for (name, attributes) in [("hidden", UInt8(0x22)), ("shown", 0x20)] {
          let path = "\(root)/\(name)\(version).txt"
          try put("x", at: path)
          let value = TestTree.dosAttributes(attributes, version: version)
          #expect(setAttribute("user.DOSATTRIB", to: value, of: path) == nil)
        }
      }
      try put("x", at: "\(root)/old.txt")
      _ = setAttribute("user.DOSATTRIB", to: Array("0x22\0".utf8), of: "\(root)/old.txt")
    }
    #expect(view.listing() == ["shown3", "shown4", "shown5"])
    #expect(text(view.at("hidden3.txt")) == "x")
  }

  @Test func finderInfoOff_ignoresFinderFlags() throws {
    let view = try MountedView("finder-info=off,profile=macos") { root in
      try put("x", at: "\(root)/unseen.txt")
      _ = setAttribute("user.com.apple.FinderInfo", to: TestTree.finderInfo(0x4000), of: "\(root)/unseen.txt")
    }
    #expect(view.listing() == ["unseen"])
  }

  @Test func finderFlagSetThroughMount_takesEffect() throws {
    let view = try MountedView { try put("x", at: "\($0)/dir/a.txt") }
    #expect(view.listing("dir") == ["a"])
    #expect(
      setAttribute("user.com.apple.FinderInfo", to: TestTree.finderInfo(0x4000), of: view.at("dir/a")) == nil)
    #expect(view.listing("dir") == [])
  }

  @Test func attributesOfServers_writtenLater_takeEffect() throws {
    let view = try MountedView { makeDirectory("\($0)/share") }
    #expect(view.listing("share") == [])
    try put("x", at: view.real("share/a.txt"))
    #expect(view.listing("share") == ["a"])
    let hidden = TestTree.dosAttributes(0x22, version: 5)
    #expect(setAttribute("user.DOSATTRIB", to: hidden, of: view.real("share/a.txt")) == nil)
    #expect(view.listing("share") == [])
    try put("x", at: view.real("share/b.txt"))
    _ = setAttribute(
      "user.com.apple.FinderInfo", to: TestTree.finderInfo(0x4000), of: view.real("share/b.txt"))
    #expect(view.listing("share") == [])
  }

  /// The kernel reports a change of a directory's attributes under the directory itself, which need not be watched.
  @Test(.asRoot, arguments: [false, true])
  func attributesOfDirectory_writtenLater_takeEffect(isLookedInto: Bool) throws {
    let view = try MountedView("hidden=deny", build: Self.makeDirectories)
    #expect(Set(view.listing()) == ["finder", "dos", "bundle", "plain"])
    if isLookedInto { #expect(view.shell("ls -lR").status == 0) }
    Self.changeDirectories(in: view.source)
    #expect(Set(view.listing()) == ["bundle", "plain"])
    for name in ["finder", "dos"] {
      #expect(eventually { !isThere(view.at("\(name)/data")) }, "\(name)")
    }
    #expect(status(view.at("bundle"))?.isRegular == true)
    #expect(removexattr(view.real("dos"), "user.DOSATTRIB") == 0)
    #expect(Set(view.listing()) == ["bundle", "plain", "dos"])
  }

  /// The view itself covers the directory that they lie in. It must get no request, which the daemon would have to reply to.
  @Test(.asRoot) func attributesOfDirectory_beneathViewMountedOverItsSource_takeEffect() throws {
    let view = try MountedView(build: Self.makeDirectories)
    let source = view.source
    view.unmount()
    let beside = try TemporaryDirectory()
    try #require(Shell.run("mount --bind '\(source)' '\(beside.root)'").status == 0)
    defer { _ = Shell.run("umount '\(beside.root)'") }
    try #require(Displayfs.run(["mount", "-o", "language=en", source, source]).status == 0)
    defer { _ = Displayfs.run(["unmount", source]) }
    #expect(Shell.run("ls -lR '\(source)'").status == 0)
    Self.changeDirectories(in: beside.root)
    let shown = Shell.run("ls '\(source)'")
    #expect(shown.names == ["bundle", "plain"], "\(shown.complaint)")
    // The kernel knows the name from before, and is notified a moment after the change.
    #expect(eventually { status("\(source)/bundle")?.isRegular == true })
  }

  static func makeDirectories(in root: String) throws {
    for name in ["finder", "dos", "bundle", "plain"] { try put("x", at: "\(root)/\(name)/data") }
  }

  /// Gives these directories Finder info and DOS attributes, beneath a view.
  static func changeDirectories(in root: String) {
    for (name, flags) in [("finder", 0x4000), ("bundle", 0x2000)] as [(String, UInt16)] {
      #expect(
        setAttribute("user.com.apple.FinderInfo", to: TestTree.finderInfo(flags), of: "\(root)/\(name)")
          == nil)
    }
    let hidden = TestTree.dosAttributes(0x22, version: 5)
    #expect(setAttribute("user.DOSATTRIB", to: hidden, of: "\(root)/dos") == nil)
  }

  @Test func appleDoubleFile_whenRewritten_isReadAgain() throws {
    let view = try MountedView { root in
      try put("x", at: "\(root)/a.txt")
      try put(TestTree.appleDouble(TestTree.finderInfo(0)), at: "\(root)/._a.txt")
    }
    #expect(view.listing() == ["a"])
    try put(TestTree.appleDouble(TestTree.finderInfo(0x4000)), at: view.real("._a.txt"))
    #expect(view.listing() == [])
    unlink(view.real("._a.txt"))
    #expect(view.listing() == ["a"])
    try put(TestTree.appleDouble(TestTree.finderInfo(0x4000)), at: view.at("._a.txt"))
    #expect(view.listing() == [])
  }

  @Test func appleDoubleFiles_whenDotFilesAreShown_stayHidden() throws {
    let view = try MountedView("disabled-rules=dot-files") { root in
      for name in ["a.txt", ".profile"] { try put("x", at: "\(root)/\(name)") }
      for name in ["._a.txt", "._orphan.txt"] {
        try put(TestTree.appleDouble(TestTree.finderInfo(0)), at: "\(root)/\(name)")
      }
      try put("not AppleDouble", at: "\(root)/._.profile")
    }
    #expect(view.listing() == ["a", ".profile", "._.profile", "._orphan"])
    #expect(Displayfs.run(["explain", view.at("._a.txt")]).text.contains("Macintosh metadata"))
  }

  @Test func malformedMetadata_isIgnoredAndLoggedOncePerKind() throws {
    let view = try MountedView("config=none") { root in
      let hostile: [[UInt8]] = [
        [], [0xff], [UInt8](repeating: 0x40, count: 31), [UInt8](repeating: 0x40, count: 3000),
        [0x00, 0x05, 0x16, 0x07, 0x00, 0x02, 0x00, 0x00] + [UInt8](repeating: 0xff, count: 394),
      ]
      let attributes = [
        "user.com.apple.FinderInfo", "user.org.netatalk.Metadata", "user.DosStream.AFP_AfpInfo:$DATA",
        "user.DOSATTRIB",
      ]
      for (index, value) in hostile.enumerated() {
        for attribute in attributes {
          let path = "\(root)/\(attribute.dropFirst(5).prefix(6))\(index)"
          try put("x", at: path)
          _ = setAttribute(attribute, to: value, of: path)
        }
        try put("x", at: "\(root)/double\(index)")
        try put(value, at: "\(root)/._double\(index)")
        try put("x", at: "\(root)/atalk\(index)")
        try put(value, at: "\(root)/.AppleDouble/atalk\(index)")
        try put("x", at: "\(root)/depot\(index)")
        _ = setAttribute("user.SAMBA_STREAMS", to: Array("1".utf8), of: "\(root)/depot\(index)")
        try put(value, at: "\(root)/\(Self.depotPath("\(root)/depot\(index)"))")
        let text = value.isEmpty ? [0xff, 0xfe, 0x22] : value
        try put(text, at: "\(root)/Table\(index).localized/.localized/en.strings")
        try put(text, at: "\(root)/Cut\(index).app/Contents/Info.plist")
        try TestTree.application("\(root)/App\(index).app", named: "App\(index)")
        try put(text, at: "\(root)/App\(index).app/Contents/Resources/InfoPlist.loctable")
        try put(text, at: "\(root)/note\(index).desktop")
      }
    }
    view.unmount()
    let log = "\(view.source)/.log"
    let daemon = Shell.start(
      "exec '\(Displayfs.path)' mount -f -o language=en,desktop-names=on '\(view.source)' '\(view.mountPoint)' 2>'\(log)'"
    )
    #expect(eventually(within: .work) { Displayfs.isMounted(view.mountPoint) })
    #expect(view.listing().count == 55)
    #expect(Displayfs.run(["set", view.mountPoint, "language=de"]).status == 0)
    #expect(view.listing().count == 55)
    view.unmount()
    daemon.wait()
    let lines = (text(log) ?? "").split(separator: "\n").filter { $0.contains("malformed") }
    for kind in [
      "FinderInfo", "netatalk.Metadata", "user.DosStream.AFP_AfpInfo", "DOSATTRIB", "AppleDouble file",
      "stream :AFP_AfpInfo", "string table", "Info.plist", "InfoPlist.loctable", "desktop entry",
    ] {
      #expect(lines.filter { $0.contains(kind) }.count == 1, "\(kind): \(lines)")
    }
  }

  @Test(.tracing) func listing_withoutMetadata_needsNoAttributeCallPerFile() throws {
    let view = try MountedView { root in
      for number in 0..<500 { try put("x", at: "\(root)/file\(number).txt") }
    }
    let log = "\(view.source).calls"
    let traced = Shell.run([
      "strace", "-f", "-qq", "-e", "trace=llistxattr,listxattr,lgetxattr,getxattr", "-o", log, Displayfs.path,
      "ls",
      "--source", view.source, view.source,
    ])
    #expect(traced.status == 0 && traced.names.count == 500, "\(traced.errorText)")
    #expect((text(log) ?? "").split(separator: "\n").count < 50)
    unlink(log)
  }

  @Test func hiddenFile_savedByRealName_staysHidden() throws {
    let view = try MountedView { root in
      for name in ["dos.txt", "finder.txt"] { try put("old", at: "\(root)/\(name)") }
      _ = setAttribute("user.DOSATTRIB", to: TestTree.dosAttributes(0x22, version: 5), of: "\(root)/dos.txt")
      _ = setAttribute("user.com.apple.FinderInfo", to: TestTree.finderInfo(0x4000), of: "\(root)/finder.txt")
    }
    #expect(view.listing() == [])
    #expect(view.shell("for f in dos finder; do printf new > .t && mv .t $f.txt; done").status == 0)
    #expect(view.listing() == [])
    #expect(text(view.real("dos.txt")) == "new")
  }

  @Test func netatalkFile_followsRenameAndRemoval() throws {
    let view = try MountedView { root in
      for name in ["a.txt", "b.txt", "c.txt"] {
        try put("x", at: "\(root)/\(name)")
        try put(TestTree.appleDouble(TestTree.finderInfo(0x0400)), at: "\(root)/.AppleDouble/\(name)")
      }
      makeDirectory("\(root)/other")
    }
    #expect(view.listing() == ["a", "b", "c", "other"])
    #expect(view.shell("mv a other/moved && rm b").status == 0)
    #expect(view.realListing(".AppleDouble") == ["c.txt"])
    #expect(view.realListing("other/.AppleDouble") == ["moved.txt"])
    #expect(view.listing("other") == ["moved"])
  }

  @Test(arguments: 0..<6) func finderFlags_surviveSave(store: Int) throws {
    let view = try MountedView("extensions=flag") { root in
      try put("old", at: "\(root)/a.txt")
      try Self.stores[store].write(root, "a.txt", 0x0010)
    }
    #expect(view.listing() == ["a"])
    #expect(view.shell("printf new > .t && mv .t a").status == 0)
    #expect(view.listing() == ["a"])
    // Moved away and written anew, by one process.
    #expect(
      view.shell(
        "exec perl -e 'rename \"a\", \"a~\"; open F, \">a\"; print F \"newer\"; close F; unlink \"a~\"'"
      ).status == 0)
    #expect(view.listing() == ["a"], "\(Self.stores[store].name)")
    #expect(text(view.real("a.txt")) == "newer")
    if store == 5 {
      let stream = contents(view.real(Self.depotPath(view.real("a.txt"))))
      #expect(stream == TestTree.afpInfo(TestTree.finderInfo(0x0010)))
    }
  }

  /// ext4 gives a file the inode number of one that has just gone, and with it a directory of the depot.
  @Test func save_dropsStaleSambaStreams() throws {
    let write = Self.stores[5].write
    let view = try MountedView("extensions=flag") { root in
      for name in ["a.txt", "new.txt"] { try put("x", at: "\(root)/\(name)") }
      try write(root, "a.txt", 0x0010)
      let depot = "\(root)/\(Self.depotPath("\(root)/new.txt"))"
      try put("stale", at: depot)
      try put("stale", at: depot.replacing(":AFP_AfpInfo", with: ":AFP_Resource"))
    }
    #expect(view.listing() == ["a", "new.txt"])
    #expect(view.shell("mv new.txt a").status == 0)
    #expect(view.listing() == ["a"])
    let depot = view.real(Self.depotPath(view.real("a.txt")))
    #expect(contents(depot) == TestTree.afpInfo(TestTree.finderInfo(0x0010)))
    #expect(!isThere(depot.replacing(":AFP_AfpInfo", with: ":AFP_Resource")))
  }
}
