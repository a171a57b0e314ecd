import CLinux
import Glibc
import SystemPackage
import Testing

/// A save by renaming, with which a program replaces a file, loses none of the file's metadata without an error or a line in the
/// log.
@Suite(.mounting, .extendedAttributes) struct MetadataLossTests {
  private static let info = "user.com.apple.FinderInfo"
  private static let tags = "user.\(MacAttributes.tags)"

  /// A document with metadata of a Mac, and the file that is to replace it.
  private func put(in root: String, tags: [UInt8] = MacAttributes.list(["mine"])) throws {
    try MountTests.put("old", at: "\(root)/report.txt")
    try MountTests.put("new", at: "\(root)/draft")
    _ = setAttribute(Self.info, to: TestTree.finderInfo(0x0400), of: "\(root)/report.txt")
    try #require(setAttribute(Self.tags, to: tags, of: "\(root)/report.txt") == nil)
  }

  private func expectUnchanged(_ view: MountedView) {
    #expect(text(view.real("report.txt")) == "old" && text(view.real("draft")) == "new")
    #expect(attributeNames(of: view.real("report.txt")).isSuperset(of: [Self.info, Self.tags]))
    #expect(attributeNames(of: view.real("draft")).isDisjoint(with: [Self.info, Self.tags]))
  }

  /// The tags need a block of their own, and the disk has none left.
  @Test(.asRoot, .loopDevices) func save_onFullDisk_isRefusedAndSucceedsOnceThereIsRoom() throws {
    let view = try MountedView("finder-info=on") { root in
      let made = Shell.run(
        """
        truncate -s 16M '\(root).image' && mkfs.ext4 -q -m 0 -b 4096 -I 256 -O ^has_journal '\(root).image' &&
          mount -o loop '\(root).image' '\(root)'
        """)
      try #require(made.status == 0, "\(made.complaint)")
      try self.put(in: root, tags: [UInt8](repeating: 7, count: 1000))
      // ext4 lets two files with the same attributes share a block.
      _ = setAttribute("user.mark", to: [UInt8](repeating: 1, count: 100), of: "\(root)/report.txt")
      for number in 0..<64 { try MountTests.put("", at: "\(root)/spare\(number)") }
      _ = Shell.run("head -c 32M /dev/zero >full; sync -f full", in: root)
      // Attributes take the blocks that the data could not: then there is none for another attribute.
      let isFull = (0..<64).contains { number in
        let value = [UInt8](repeating: UInt8(number), count: 1000)
        return setAttribute("user.mark", to: value, of: "\(root)/spare\(number)") == .noSpace
      }
      try #require(isFull)
    }
    #expect(failure { rename(view.at("draft"), view.at("report")) } == .noSpace)
    expectUnchanged(view)
    #expect(unlink(view.real("full")) == 0)
    #expect(failure { rename(view.at("draft"), view.at("report")) } == nil)
    #expect(text(view.real("report.txt")) == "new" && !isThere(view.real("draft")))
    #expect(attributeNames(of: view.real("report.txt")).isSuperset(of: [Self.info, Self.tags]))
  }

  /// Also when the first attribute was added already. Where descriptors run out, the daemon tries once more.
  @Test(.tracing, arguments: ["EDQUOT", "EMFILE", "ENFILE", "ENOMEM"], [1, 2])
  func save_whenShortagePreventsTransfer_isRefusedAndChangesNeitherFile(error: String, call: Int) throws {
    let view = try MountedView("finder-info=on") { try put(in: $0) }
    _ = view.listing()
    let tracer = try Tracer(
      of: try #require(view.daemon), at: "fsetxattr", "error=\(error):when=\(call)+")
    let saved = rename(view.at("draft"), view.at("report"))
    let number = errno
    tracer.stop()
    #expect(saved == -1 && [EDQUOT, EMFILE, ENFILE, ENOMEM].contains(number))
    expectUnchanged(view)
    #expect(failure { rename(view.at("draft"), view.at("report")) } == nil)
    #expect(attributeNames(of: view.real("report.txt")).isSuperset(of: [Self.info, Self.tags]))
  }

  /// A save that was refused each time would lose the new text. ENOSPC is also what ext4 gives for a value that is too large.
  @Test(.tracing, arguments: ["EOPNOTSUPP", "EPERM", "E2BIG", "ENOSPC"])
  func save_whenTransferIsImpossible_succeedsAndIsLogged(error: String) throws {
    let view = try MountedView("finder-info=on") { try put(in: $0) }
    view.unmount()
    let log = "\(view.source)/.log"
    let program = Shell.start(
      "exec '\(Displayfs.path)' mount -f -o language=en,finder-info=on '\(view.source)' '\(view.mountPoint)' 2>'\(log)'"
    )
    #expect(eventually(within: .work) { Displayfs.isMounted(view.mountPoint) })
    _ = view.listing()
    let daemon = try #require(view.daemon)
    let tracer = try Tracer(of: daemon, at: "fsetxattr", "error=\(error)")
    #expect(failure { rename(view.at("draft"), view.at("report")) } == nil)
    tracer.stop()
    view.unmount()
    program.wait()
    #expect(text(view.real("report.txt")) == "new" && !isThere(view.real("draft")))
    let lines = (text(log) ?? "").split(separator: "\n")
    for attribute in [Self.info, Self.tags] {
      #expect(lines.contains { $0.contains("report.txt") && $0.contains(attribute) }, "\(lines)")
    }
  }

  /// The new name of the file is refused after the metadata was added.
  @Test(.tracing) func save_refusedByFileSystem_leavesNoMetadataOnNewFile() throws {
    let view = try MountedView("finder-info=on") { try put(in: $0) }
    _ = view.listing()
    let tracer = try Tracer(of: try #require(view.daemon), at: "renameat2,renameat,rename", "error=EIO")
    let refused = failure { rename(view.at("draft"), view.at("report")) }
    tracer.stop()
    #expect(refused == .ioError)
    expectUnchanged(view)
  }

  @Test func save_withMetadataOfItsOwn_keepsThat() throws {
    let view = try MountedView("finder-info=on") { root in
      try put(in: root)
      _ = setAttribute(Self.tags, to: MacAttributes.list(["other"]), of: "\(root)/draft")
    }
    #expect(failure { rename(view.at("draft"), view.at("report")) } == nil)
    #expect(attribute("user.xdg.tags", of: view.at("report")) == "other")
    #expect(attributeNames(of: view.real("report.txt")).contains(Self.info))
  }

  /// Half a sidecar would count as damaged, and the next save would not replace it.
  @Test(.tracing, arguments: ["ENOSPC", "EIO"])
  func sidecarWrittenHalfway_isRemoved(error: String) throws {
    let view = try MountedView("finder-info=on") { root in
      try MountTests.put("old", at: "\(root)/report.txt")
      try MountTests.put(TestTree.appleDouble(TestTree.finderInfo(0x0400)), at: "\(root)/._report.txt")
    }
    _ = view.listing()
    let tracer = try Tracer(
      of: try #require(view.daemon), at: "pwrite64", "error=\(error)", on: view.real("._report.txt"))
    // As an editor that removes the old file and writes a new one: the sidecar goes and comes back with it.
    let saved = view.shell("exec perl -e 'unlink \"report\"; open F, \">report\"; close F'")
    tracer.stop()
    #expect(saved.status == 0, "\(saved.complaint)")
    #expect(view.realListing() == ["report.txt"])
  }
}
