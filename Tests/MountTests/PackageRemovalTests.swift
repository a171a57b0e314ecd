import Glibc
import SystemPackage
import Testing

@Suite(.mounting) struct PackageRemovalTests {
  private func view() throws -> MountedView {
    try MountedView { root in
      for number in 0..<50 {
        try put("x", at: "\(root)/Album.photoslibrary/masters/\(number % 5)/\(number).jpg")
      }
      try put("x", at: "\(root)/notes.txt")
    }
  }

  @Test func unlinkOfPackage_removesItWhole() throws {
    let view = try view()
    #expect(failure { unlink(view.at("Album")) } == nil)
    #expect(view.listing() == ["notes"])
    #expect(!isThere(view.at("Album")))
    #expect(!isThere(view.at("Album.photoslibrary")))
    // The package is deleted after it has left the view, and nothing of the staging directory stays.
    #expect(eventually(within: .work) { view.realListing() == ["notes.txt"] })
  }

  @Test func unlinkOfPackage_byRealName_fails() throws {
    let view = try view()
    #expect(failure { unlink(view.at("Album.photoslibrary")) } == .isDirectory)
    #expect(failure { rmdir(view.at("Album.photoslibrary")) } == .directoryNotEmpty)
    #expect(failure { rmdir(view.at("Album")) } == .notDirectory)
    #expect(view.listing("Album.photoslibrary/masters").count == 5)
  }

  @Test func unlinkOfDirectory_fails() throws {
    let view = try MountedView { root in try put("x", at: "\(root)/Folder/x") }
    #expect(failure { unlink(view.at("Folder")) } == .isDirectory)
    #expect(failure { rmdir(view.at("Folder")) } == .directoryNotEmpty)
    #expect(unlink(view.at("Folder/x")) == 0)
    #expect(failure { rmdir(view.at("Folder")) } == nil)
  }

  @Test func nameOfRemovedPackage_canBeReused() throws {
    let view = try view()
    #expect(failure { unlink(view.at("Album")) } == nil)
    #expect(failure { mkdir(view.at("Album.photoslibrary"), 0o755) } == nil)
    try put("new", at: view.at("Album.photoslibrary/x"))
    #expect(view.listing() == ["Album", "notes"])
    // The old package has been deleted when nothing is in staging any more.
    #expect(view.realListing() == ["Album.photoslibrary", "notes.txt"])
    #expect(text(view.real("Album.photoslibrary/x")) == "new")
  }

  @Test func rm_removesPackageLikeFile() throws {
    let view = try view()
    #expect(view.shell("rm Album && rm -r notes && ls -A").text == "")
  }
}

/// A package is removed with the rights of the client, whole or not at all; what the client may not delete is never lost.
@Suite(.mounting, .asRoot) struct PackageRemovalRightsTests {
  private static let anna: uid_t = 61001
  private static let bert: uid_t = 61002
  private static let carl: uid_t = 61003

  private func view(_ options: String = "allow_other", build: (String) throws -> Void) throws -> MountedView {
    try MountedView(options) { root in
      chmod(root, 0o777)
      try build(root)
    }
  }

  private func put(_ content: String, at path: String, _ owner: uid_t, _ mode: mode_t = 0o644) throws {
    try MountTests.put(content, at: path)
    chown(path, owner, owner)
    chmod(path, mode)
  }

  private func give(_ path: String, to owner: uid_t, _ mode: mode_t) {
    chown(path, owner, owner)
    chmod(path, mode)
  }

  @Test(arguments: ["rm -f Drop", "echo x >draft && mv -f draft Drop"])
  func removal_withAnothersFileInStickyDirectory_isRefusedWhole(script: String) throws {
    let view = try view { root in
      try put("x", at: "\(root)/Drop.rtfd/a", Self.carl)
      try put("mine", at: "\(root)/Drop.rtfd/box/only-copy", Self.bert)
      give("\(root)/Drop.rtfd", to: Self.anna, 0o777)
      give("\(root)/Drop.rtfd/box", to: Self.anna, 0o1777)
    }
    let outcome = view.run(as: Self.carl, script)
    #expect(outcome.status != 0, "\(outcome.complaint)")
    #expect(text(view.real("Drop.rtfd/box/only-copy")) == "mine")
    #expect(text(view.real("Drop.rtfd/a")) == "x")
    #expect(view.run(as: Self.anna, "rm -f Drop").status == 0)
    #expect(!isThere(view.real("Drop.rtfd")))
  }

  @Test func removal_ofAnothersPackageInStickyDirectory_isRefused() throws {
    let view = try view { root in
      try put("x", at: "\(root)/Drop.rtfd/a", Self.anna)
      give("\(root)/Drop.rtfd", to: Self.anna, 0o777)
      chmod(root, 0o1777)
    }
    #expect(view.run(as: Self.bert, "rm -f Drop").status != 0)
    #expect(text(view.real("Drop.rtfd/a")) == "x")
  }

  private static let canMountImages =
    Shell.run(
      """
      place=$(mktemp -d)
      trap 'rm -rf --one-file-system "$place"' EXIT
      cd "$place" && truncate -s 4M i && mkfs.ext4 -q -O ^filetype i && mkdir m && mount -o loop i m && umount m
      """
    ).status == 0

  /// ext4 without its feature `filetype` lists every entry as DT_UNKNOWN, as some network file systems do.
  @Test(.enabled(if: canMountImages, "No image can be mounted here."))
  func removal_withoutEntryTypesInListing_isRefusedWhole() throws {
    let view = try view { root in
      let made = Shell.run(
        "truncate -s 8M '\(root).image' && mkfs.ext4 -q -O ^filetype '\(root).image' && mount -o loop '\(root).image' '\(root)'"
      )
      try #require(made.status == 0, "\(made.complaint)")
      chmod(root, 0o777)
      try put("x", at: "\(root)/Drop.rtfd/a", Self.bert)
      try put("only copy", at: "\(root)/Drop.rtfd/closed/b", Self.anna)
      give("\(root)/Drop.rtfd", to: Self.bert, 0o755)
      give("\(root)/Drop.rtfd/closed", to: Self.anna, 0o755)
    }
    #expect(view.run(as: Self.bert, "rm -f Drop").status != 0)
    #expect(text(view.real("Drop.rtfd/closed/b")) == "only copy")
    #expect(text(view.real("Drop.rtfd/a")) == "x")
    #expect(view.run(as: 0, "rm -f Drop").status == 0)
    #expect(!isThere(view.real("Drop.rtfd")))
  }

  /// A file that is mounted over.
  @Test(arguments: [uid_t(0), bert])
  func removal_withFileMountedOver_isRefusedWhole(user: uid_t) throws {
    let view = try view { root in
      try put("kept", at: "\(root)/Drop.rtfd/deep/busy", Self.bert)
      try put("x", at: "\(root)/Drop.rtfd/a", Self.bert)
      for path in ["Drop.rtfd", "Drop.rtfd/deep"] { give("\(root)/\(path)", to: Self.bert, 0o755) }
      try #require(Shell.run("mount --bind Drop.rtfd/deep/busy Drop.rtfd/deep/busy", in: root).status == 0)
    }
    #expect(view.run(as: user, "rm -f Drop").status != 0)
    #expect(text(view.real("Drop.rtfd/deep/busy")) == "kept")
    #expect(text(view.real("Drop.rtfd/a")) == "x")
    #expect(view.listing() == ["Drop"])
    #expect(view.run(as: user, "cat Drop.rtfd/deep/busy").text == "kept")
    #expect(!isThere(view.real(".displayfs-staging")))
    try #require(Shell.run(["umount", view.real("Drop.rtfd/deep/busy")]).status == 0)
    #expect(view.run(as: user, "rm -f Drop").status == 0)
    #expect(view.realListing() == [])
  }

  /// The check cannot know all that a file system refuses.
  @Test(.tracing) func removal_refusedMidway_restoresRemainder() throws {
    let view = try view { root in
      for number in 0..<10 { try put("x", at: "\(root)/Drop.rtfd/\(number)/part", 0) }
    }
    _ = view.listing()
    let tracer = try Tracer(of: try #require(view.daemon), at: "unlinkat", "error=EACCES:when=3")
    let removal = view.run(as: 0, "rm -f Drop")
    tracer.stop()
    #expect(removal.status != 0)
    #expect(view.listing() == ["Drop"])
    #expect(names(view.real("Drop.rtfd")).count >= 8)
    #expect(view.run(as: 0, "rm -f Drop").status == 0)
    #expect(eventually(within: .work) { view.realListing() == [] })
  }

  /// The new package has the name already, so the old one comes back beside it.
  @Test(.tracing)
  func replacement_withPartThatMayNotBeDeleted_succeedsAndKeepsOldPackageBesideNewOne() throws {
    let view = try view { root in
      for number in 0..<10 { try put("kept", at: "\(root)/Drop.rtfd/\(number)/part", 0) }
      try put("new", at: "\(root)/elsewhere/New.rtfd/a", 0)
    }
    _ = (view.listing(), view.listing("elsewhere"))
    let tracer = try Tracer(of: try #require(view.daemon), at: "unlinkat", "error=EACCES:when=1")
    let replacement = view.run(as: 0, "mv -f elsewhere/New Drop")
    tracer.stop()
    #expect(replacement.status == 0, "\(replacement.complaint)")
    #expect(view.listing() == ["Drop", "Drop 2", "elsewhere"] && view.listing("elsewhere").isEmpty)
    #expect(text(view.real("Drop.rtfd/a")) == "new")
    for number in 0..<10 { #expect(text(view.real("Drop 2.rtfd/\(number)/part")) == "kept") }
    #expect(names(view.real("elsewhere")).isEmpty)
  }

  /// Immutable and append-only files are deleted by no user, not even root.
  @Test(
    .fileFlags, arguments: ["+i", "+a"],
    ["rm -f Drop", "echo x >draft && mv -f draft Drop", "mv -f New Drop"])
  func removal_withProtectedPart_isRefusedWhole(flag: String, script: String) throws {
    let view = try view { root in
      for part in ["a", "deep/b", "deep/c", "folder/d"] { try put(part, at: "\(root)/Drop.rtfd/\(part)", 0) }
      try put("new", at: "\(root)/New.rtfd/a", 0)
    }
    for part in ["deep/b", "folder"] {
      let path = view.real("Drop.rtfd/\(part)")
      try #require(Shell.run(["chattr", flag, path]).status == 0)
      // What bears a flag would stay behind with the tree of the test.
      defer { _ = Shell.run("find '\(view.source)' -exec chattr -ia {} +") }
      #expect(view.run(as: 0, script).status != 0, "\(part)")
      for part in ["a", "deep/b", "deep/c", "folder/d"] {
        #expect(text(view.real("Drop.rtfd/\(part)")) == part)
      }
      #expect(text(view.real("New.rtfd/a")) == "new")
      #expect(!isThere(view.real(".displayfs-staging")))
    }
    #expect(view.run(as: 0, script).status == 0)
    #expect(eventually(within: .work) { !isThere(view.real(".displayfs-staging")) })
  }

  @Test func removal_withMountInPackage_isRefusedWhole() throws {
    let view = try view { root in
      try put("x", at: "\(root)/Drop.rtfd/a", 0)
      makeDirectory("\(root)/Drop.rtfd/disk")
      try #require(
        Shell.run("mount -t tmpfs none Drop.rtfd/disk && echo kept >Drop.rtfd/disk/b", in: root).status == 0)
    }
    #expect(failure { unlink(view.at("Drop")) } == .resourceBusy)
    #expect(text(view.real("Drop.rtfd/disk/b")) == "kept\n" && text(view.real("Drop.rtfd/a")) == "x")
  }

  /// Another user makes files in the package once it has left its place: the check came earlier and found none of them.
  @Test func removal_keepsFilesCreatedMeanwhileByAnotherUser() throws {
    let view = try view { root in
      makeDirectory("\(root)/open")
      chmod("\(root)/open", 0o777)
    }
    // On a busy machine a removal may be over before the other user gets a processor. Then it is repeated.
    var made: [Substring] = []
    for _ in 0..<50 where made.isEmpty {
      makeDirectory(view.real("Drop.rtfd/box/many"))
      _ = Shell.run("seq 4000 | xargs touch", in: view.real("Drop.rtfd/box/many"))
      for path in ["Drop.rtfd", "Drop.rtfd/box/many"] { give(view.real(path), to: Self.anna, 0o755) }
      give(view.real("Drop.rtfd/box"), to: 0, 0o1777)
      let maker = PythonProgram(
        """
        made = open("\(view.real("open/made"))", "w")
        open("\(view.real("open/ready"))", "w").close()
        while os.path.exists("\(view.real("Drop.rtfd"))"): pass
        for number in range(20):
          try: open(str(number), "x").close()
          except FileNotFoundError: break
          print(number, file=made, flush=True)
        """, as: Self.bert, in: view.real("Drop.rtfd/box")
      ).start()
      try waitUntil { isThere(view.real("open/ready")) }
      let removal = view.run(as: Self.anna, "rm -f Drop")
      maker.wait()
      made = (text(view.real("open/made")) ?? "").split(separator: "\n")
      #expect((removal.status != 0) == !made.isEmpty, "\(made.count) made: \(removal.complaint)")
      unlink(view.real("open/ready"))
    }
    let left = names(view.real("Drop.rtfd/box"))
    #expect(
      !made.isEmpty && made.allSatisfy { left.contains(FileName(String($0))) },
      "\(made.count) made, \(left.count) left")
    #expect(!isThere(view.real(".displayfs-staging")))
  }

  @Test func package_deeperThanPathLimit_isRemoved() throws {
    let view = try view { root in
      let made = PythonProgram(
        """
        os.mkdir("Deep.rtfd"); os.chdir("Deep.rtfd")
        for level in range(2200): os.mkdir("d"); os.chdir("d")
        """, in: root
      ).run()
      try #require(made.status == 0, "\(made.complaint)")
    }
    #expect(failure { unlink(view.at("Deep")) } == nil)
    #expect(view.realListing() == [])
  }

  /// No client may delete it differently, and half a package is of no use: it is gone from the view, and not from the disk yet.
  @Test(.tracing, arguments: ["EIO", "ENOMEM"], ["rm -f Drop", "mv -f New Drop"])
  func removal_whenMachineFailsMidway_succeedsAndIsFinishedByNextMount(error: String, script: String) throws {
    let view = try view { root in
      for number in 0..<10 { try put("x", at: "\(root)/Drop.rtfd/\(number)/part", 0) }
      try put("new", at: "\(root)/New.rtfd/part", 0)
    }
    _ = view.listing()
    // Counted for each thread of the daemon, and one thread deletes all parts.
    let tracer = try Tracer(of: try #require(view.daemon), at: "unlinkat", "error=\(error):when=3+")
    let removal = view.run(as: 0, script)
    tracer.stop()
    #expect(removal.status == 0, "\(removal.complaint)")
    let isReplaced = script.hasPrefix("mv")
    #expect(view.listing() == (isReplaced ? ["Drop"] : ["New"]))
    #expect(text(view.real("\(isReplaced ? "Drop" : "New").rtfd/part")) == "new")
    #expect(names(view.real(".displayfs-staging")).contains { $0.description.hasPrefix("removed-") })
    view.unmount()
    try view.mount()
    #expect(eventually(within: .work) { view.realListing() == [isReplaced ? "Drop.rtfd" : "New.rtfd"] })
  }

  // MARK: - After a crash

  /// What a daemon that was killed has left of a removal by a client.
  private func leave(
    _ staging: String, of user: uid_t, from path: String, record: Bool = true
  ) throws {
    try put("x", at: "\(staging)/removed-1/own/a", user)
    try put("only copy", at: "\(staging)/removed-1/box/b", Self.anna)
    for path in ["removed-1", "removed-1/own"] { give("\(staging)/\(path)", to: user, 0o755) }
    give("\(staging)/removed-1/box", to: Self.anna, 0o1777)
    if record { try put("\(user) \(user) 18\n\(path)\0", at: "\(staging)/removed-1-record", 0, 0o600) }
    chmod(staging, 0o700)
  }

  @Test func interruptedRemoval_withPartOfAnotherUser_restoresPackageWhole() throws {
    let view = try view { root in
      makeDirectory("\(root)/Folder")
      let staging = "\(root)/.displayfs-staging"
      try leave(staging, of: Self.bert, from: "Folder/Drop.rtfd")
      for number in 0..<20 { try put("x", at: "\(staging)/removed-1/\(number)", Self.bert) }
    }
    try waitUntil { !isThere(view.real(".displayfs-staging")) }
    #expect(text(view.real("Folder/Drop.rtfd/box/b")) == "only copy")
    #expect(text(view.real("Folder/Drop.rtfd/own/a")) == "x")
    #expect((0..<20).allSatisfy { text(view.real("Folder/Drop.rtfd/\($0)")) == "x" })
    #expect(view.listing("Folder") == ["Drop"])
    // Its own client removes the rest.
    #expect(view.run(as: Self.anna, "rm Folder/Drop.rtfd/box/b").status == 0)
  }

  @Test func interruptedRemoval_byClientWithAllRights_isFinished() throws {
    let view = try view { root in try leave("\(root)/.displayfs-staging", of: Self.anna, from: "Drop.rtfd") }
    try waitUntil { !isThere(view.real(".displayfs-staging")) }
    #expect(view.realListing() == [])
  }

  @Test func interruptedRemoval_whenNameIsTaken_restoresUnderAnother() throws {
    let view = try view { root in
      try put("new", at: "\(root)/Drop.rtfd/a", Self.bert)
      try leave("\(root)/.displayfs-staging", of: Self.bert, from: "Drop.rtfd")
    }
    try waitUntil { !isThere(view.real(".displayfs-staging")) }
    #expect(text(view.real("Drop.rtfd/a")) == "new")
    #expect(text(view.real("Drop 2.rtfd/box/b")) == "only copy")
  }

  @Test func interruptedRemoval_withoutRecord_isLeftAlone() throws {
    let view = try view { root in
      try leave("\(root)/.displayfs-staging", of: Self.bert, from: "Drop.rtfd", record: false)
      try put("x", at: "\(root)/.displayfs-staging/unpacking-1/a", 0)
    }
    try waitUntil { !isThere(view.real(".displayfs-staging/unpacking-1")) }
    #expect(text(view.real(".displayfs-staging/removed-1/box/b")) == "only copy")
    #expect(text(view.real(".displayfs-staging/removed-1/own/a")) == "x")
  }

  /// On another file system than SOURCE what is staged lies in the directory that it came from.
  @Test func interruptedRemoval_onAnotherFileSystem_isFinishedWhenDirectoryIsRead() throws {
    let view = try view { root in
      makeDirectory("\(root)/disk")
      try #require(Shell.run(["mount", "-t", "tmpfs", "none", "\(root)/disk"]).status == 0)
      makeDirectory("\(root)/disk/Folder")
      try leave("\(root)/disk/Folder/.displayfs-staging-77", of: Self.bert, from: "Drop.rtfd")
      try put("x", at: "\(root)/disk/Folder/.displayfs-staging-78/unpacking-5/a", 0)
      chmod("\(root)/disk/Folder/.displayfs-staging-78", 0o700)
      // Another user's, which only looks like one.
      try put("x", at: "\(root)/disk/Folder/.displayfs-staging-79/5/a", Self.bert)
      give("\(root)/disk/Folder/.displayfs-staging-79", to: Self.bert, 0o700)
    }
    _ = view.listing("disk/Folder")
    try waitUntil { names(view.real("disk/Folder")) == ["Drop.rtfd", ".displayfs-staging-79"] }
    #expect(text(view.real("disk/Folder/Drop.rtfd/box/b")) == "only copy")
    #expect(text(view.real("disk/Folder/.displayfs-staging-79/5/a")) == "x")
  }

  @Test func package_onAnotherFileSystem_isRemovedWithoutRemnants() throws {
    let view = try view { root in
      makeDirectory("\(root)/disk")
      try #require(Shell.run(["mount", "-t", "tmpfs", "none", "\(root)/disk"]).status == 0)
      chmod("\(root)/disk", 0o777)
      try put("x", at: "\(root)/disk/Drop.rtfd/a", Self.bert)
      give("\(root)/disk/Drop.rtfd", to: Self.bert, 0o755)
    }
    #expect(view.run(as: Self.bert, "cp disk/Drop disk/Copy && rm disk/Drop && ls disk").text == "Copy")
    #expect(names(view.real("disk")) == ["Copy.rtfd"])
  }

  /// The full file system has no room for a staging directory.
  @Test func package_onFullFileSystem_isRemoved() throws {
    let view = try view { root in
      try #require(Shell.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=20", "none", root]).status == 0)
      chmod(root, 0o777)
      try put("x", at: "\(root)/Drop.rtfd/deep/a", Self.bert)
      for path in ["Drop.rtfd", "Drop.rtfd/deep"] { give("\(root)/\(path)", to: Self.bert, 0o755) }
      for number in 0..<20 { _ = mkdir("\(root)/full\(number)", 0o755) }
    }
    #expect(failure { mkdir(view.at("more"), 0o755) } == .noSpace)
    #expect(view.run(as: Self.bert, "rm Drop").status == 0)
    #expect(!isThere(view.real("Drop.rtfd")))
  }

  /// A set-group-ID directory at the top, as of a group's share.
  @Test func staging_inSetGroupIDDirectory_isUsed() throws {
    let view = try view { root in
      try put("x", at: "\(root)/Drop.rtfd/a", 0)
      chmod(root, 0o2777)
    }
    #expect(failure { unlink(view.at("Drop")) } == nil)
    #expect(view.realListing() == [])
  }

  // MARK: - Overlays

  private static let hasOverlays =
    Shell.run(
      """
      place=$(mktemp -d)
      trap 'rmdir "$place"' EXIT
      unshare -m sh -ec 'mount -t tmpfs t "$1" && cd "$1" && mkdir l u w m &&
        mount -t overlay o -o lowerdir=l,upperdir=u,workdir=w m' sh "$place"
      """
    ).status == 0

  /// rename(2) of a directory that lies in a lower layer fails with EXDEV. (redirect_dir=off)
  private func overlay(_ root: String) throws {
    let made = Shell.run(
      """
      mkdir '\(root)-layers' && mount -t tmpfs none '\(root)-layers' && cd '\(root)-layers' && mkdir lower upper work &&
        mkdir -p lower/Album.rtfd/inner && echo picture >lower/Album.rtfd/inner/a && echo x >lower/notes.txt &&
        chown -R \(Self.bert):\(Self.bert) lower && chmod 777 lower upper &&
        mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work,redirect_dir=off none '\(root)'
      """)
    try #require(made.status == 0, "\(made.complaint)")
  }

  @Test(.enabled(if: hasOverlays, "There is no overlayfs here."))
  func packageInLowerLayer_isRemoved() throws {
    let view = try view { root in try overlay(root) }
    #expect(view.run(as: Self.bert, "rm Album && ls").text == "notes")
    #expect(view.realListing() == ["notes.txt"])
  }

  @Test(.enabled(if: hasOverlays, "There is no overlayfs here."))
  func removal_inLowerLayerWithoutRights_isRefusedWhole() throws {
    let view = try view { root in
      try overlay(root)
      try put("mine", at: "\(root)/Album.rtfd/inner/b", Self.anna)
      give("\(root)/Album.rtfd/inner", to: 0, 0o1777)
    }
    #expect(view.run(as: Self.bert, "rm -f Album").status != 0)
    #expect(text(view.real("Album.rtfd/inner/a")) == "picture\n")
    #expect(text(view.real("Album.rtfd/inner/b")) == "mine")
  }

  @Test(.enabled(if: hasOverlays, "There is no overlayfs here."))
  func packageInLowerLayer_movedByMv_isCopiedAndRemoved() throws {
    let view = try view { root in try overlay(root) }
    #expect(failure { rename(view.at("Album"), view.at("Trip")) } == .improperLink)
    let moved = view.run(as: Self.bert, "mv Album Trip && ls")
    #expect(moved.text == "Trip\nnotes", "\(moved.complaint)")
    #expect(view.realListing() == ["Trip.rtfd", "notes.txt"])
    #expect(text(view.real("Trip.rtfd/inner/a")) == "picture\n")
    #expect(status(view.real("Trip.rtfd/inner/a"))?.st_uid == Self.bert)
  }

  /// mv(1) of root gives what it copies to the owner of the original.
  @Test(.enabled(if: hasOverlays, "There is no overlayfs here."))
  func packageInLowerLayer_movedByMvOfRoot_keepsItsOwner() throws {
    let view = try view { root in try overlay(root) }
    let moved = view.run(as: 0, "mv Album Trip && ls")
    #expect(moved.text == "Trip\nnotes", "\(moved.complaint)")
    #expect(view.realListing() == ["Trip.rtfd", "notes.txt"])
    for path in ["Trip.rtfd", "Trip.rtfd/inner/a"] {
      #expect(status(view.real(path))?.st_uid == Self.bert, "\(path)")
    }
  }

  @Test(.enabled(if: hasOverlays, "There is no overlayfs here."))
  func packageInLowerLayer_isReplacedByRename() throws {
    let view = try view { root in try overlay(root) }
    #expect(view.run(as: Self.bert, "mv -f notes Album && ls").text == "Album")
    #expect(view.realListing().count == 1)
  }
}
