import CLinux
import Glibc
import SystemPackage
import Testing

/// What ordinary users may do in a view that root has mounted for all: what they may do in the backing tree.
@Suite(.mounting, .asRoot) struct PermissionTests {
  private static let anna: uid_t = 61001
  private static let bert: uid_t = 61002
  private static let staff: gid_t = 62000

  /// A view with a directory `open` in which all users may make files.
  private func view(_ options: String = "allow_other", build: (String) throws -> Void = { _ in }) throws
    -> MountedView
  {
    try MountedView(options) { root in
      makeDirectory("\(root)/open")
      chmod("\(root)/open", 0o777)
      try build(root)
    }
  }

  @Test func newEntries_belongToTheirCreator() throws {
    let view = try view()
    let script = "cd open && : >file && mkdir directory && ln -s x link && mkfifo pipe && printf x >notes.txt"
    let outcome = view.run(as: Self.anna, script)
    #expect(outcome.status == 0, "\(outcome.errorText)")
    for name in ["file", "directory", "link", "pipe", "notes.txt"] {
      let made = try #require(status(view.real("open/\(name)")))
      #expect(made.st_uid == Self.anna && made.st_gid == Self.anna, "\(name)")
    }
  }

  /// All users see the same names, so none may be text that one of them may not read.
  @Test func names_showNoTextFromFilesThatNotAllMayRead() throws {
    let view = try view("allow_other,language=en,desktop-names=on") { root in
      try put(#""Plain" = "Secret";"#, at: "\(root)/Plain.localized/.localized/en.strings")
      chmod("\(root)/Plain.localized/.localized/en.strings", 0o600)
      try put(#""Closed" = "Secret";"#, at: "\(root)/Closed.localized/.localized/en.strings")
      chmod("\(root)/Closed.localized", 0o700)
      try put("[Desktop Entry]\nType=Application\nName=Secret\nExec=x\n", at: "\(root)/entry.desktop")
      chmod("\(root)/entry.desktop", 0o600)
      try put(#""Shown" = "For all";"#, at: "\(root)/Shown.localized/.localized/en.strings")
    }
    #expect(view.listing() == ["Plain", "Closed", "entry.desktop", "For all", "open"])
    // The owner publishes one by its mode, and withdraws it.
    chmod(view.real("entry.desktop"), 0o644)
    #expect(eventually { view.listing().contains("Secret") })
    chmod(view.real("entry.desktop"), 0o600)
    #expect(eventually { !view.listing().contains("Secret") })
  }

  /// The permissions that count may change: those of the directory that lists the name, and those of the file with its text.
  @Test func names_followThePermissionsOfTheirDirectory() throws {
    let view = try view("allow_other,language=en,desktop-names=on") { root in
      try put("[Desktop Entry]\nType=Application\nName=Secret\nExec=x\n", at: "\(root)/closed/entry.desktop")
      chmod("\(root)/closed/entry.desktop", 0o600)
      chmod("\(root)/closed", 0o700)
      try put("[Desktop Entry]\nName=Published\n", at: "\(root)/folder/.directory")
      chmod("\(root)/folder/.directory", 0o600)
    }
    #expect(view.listing("closed") == ["Secret"])
    chmod(view.real("closed"), 0o755)
    #expect(eventually { view.listing("closed") == ["entry.desktop"] })
    chmod(view.real("closed"), 0o700)
    #expect(eventually { view.listing("closed") == ["Secret"] })
    #expect(view.listing() == ["open", "closed", "folder"])
    chmod(view.real("folder/.directory"), 0o644)
    #expect(eventually { view.listing() == ["open", "closed", "Published"] })
  }

  @Test func permissionsOfBackingTree_areEnforced() throws {
    let view = try view { root in
      try put("secret", at: "\(root)/secret.txt")
      chmod("\(root)/secret.txt", 0o600)
      try put("x", at: "\(root)/closed/x.txt")
      chmod("\(root)/closed", 0o700)
      try put("read me", at: "\(root)/public.txt")
    }
    for script in [
      "cat secret", "cat secret.txt", "ls closed", "cat closed/x", "cat closed/x.txt", "echo x >public",
      "echo x >new", "rm public",
      "mv public other", "ln public open/stolen 2>/dev/null && echo x >open/stolen", "chmod 777 public",
      "chown \(Self.anna) public",
      "touch -d 2001-01-01 public", "truncate -s 0 public", "setfattr -n user.tag -v x public", "rmdir open",
      "mkdir d",
    ] {
      let outcome = view.run(as: Self.anna, script)
      #expect(outcome.status != 0, "\(script)")
    }
    #expect(view.run(as: Self.anna, "cat public").text == "read me")
    #expect(text(view.real("public.txt")) == "read me")
    #expect(view.realListing() == ["open", "secret.txt", "closed", "public.txt"])
  }

  /// As `/dev/stdin` after su(1), or of a program that was passed a descriptor.
  @Test func openFile_canBeOpenedAgain_inDirectoryThatTheClientMayNotSearch() throws {
    let view = try view { root in
      for (name, owner) in [("own", Self.anna), ("other", 0)] {
        try put(name, at: "\(root)/closed/\(name).txt")
        try #require(chown("\(root)/closed/\(name).txt", owner, owner) == 0)
        chmod("\(root)/closed/\(name).txt", 0o600)
      }
      chmod("\(root)/closed", 0o700)
    }
    let outcome = PythonProgram(
      """
      own, other = (os.open(f"closed/{name}", os.O_RDONLY) for name in ("own", "other"))
      os.setgroups([]); os.setgid(\(Self.anna)); os.setuid(\(Self.anna))
      again = os.open(f"/proc/self/fd/{own}", os.O_RDWR)
      assert os.read(again, 10) == b"own"
      for path in (f"/proc/self/fd/{other}", "closed/own", "closed/own.txt"):
          try: os.open(path, os.O_RDONLY)
          except PermissionError: pass
          else: raise OSError(f"{path} was opened")
      """, in: view.mountPoint
    ).run()
    #expect(outcome.status == 0, "\(outcome.complaint)")
  }

  @Test func unreadableDirectory_canBeTraversed() throws {
    let view = try view { root in
      try put("x", at: "\(root)/passage/known.txt")
      chmod("\(root)/passage", 0o711)
    }
    #expect(view.run(as: Self.anna, "ls passage").status != 0)
    #expect(view.run(as: Self.anna, "cat passage/known.txt").text == "x")
  }

  @Test func supplementaryGroups_grantAccess() throws {
    let view = try view { root in
      makeDirectory("\(root)/team")
      chown("\(root)/team", 0, Self.staff)
      chmod("\(root)/team", 0o770)
      try put("plan", at: "\(root)/team/plan.txt")
      chown("\(root)/team/plan.txt", 0, Self.staff)
      chmod("\(root)/team/plan.txt", 0o660)
    }
    #expect(view.run(as: Self.anna, "cat team/plan").status != 0)
    let member = view.run(
      as: Self.anna, groups: [Self.staff], "cat team/plan && echo more >>team/plan && : >team/new")
    #expect(member.status == 0, "\(member.errorText)")
    #expect(text(view.real("team/plan.txt")) == "planmore\n")
    #expect(status(view.real("team/new"))?.st_uid == Self.anna)
    // A member may give a file of their own to the group, and to no other.
    #expect(view.run(as: Self.anna, groups: [Self.staff], "chgrp \(Self.staff) team/new").status == 0)
    #expect(view.run(as: Self.anna, groups: [Self.staff], "chgrp 62001 team/new").status != 0)
  }

  @Test func setGroupIDDirectory_passesOnItsGroup() throws {
    let view = try view { root in
      makeDirectory("\(root)/shared")
      chown("\(root)/shared", 0, Self.staff)
      chmod("\(root)/shared", 0o2777)
    }
    #expect(
      view.run(as: Self.anna, "mkdir shared/inner && : >shared/file && : >shared/inner/deep").status == 0)
    for name in ["inner", "file", "inner/deep"] {
      #expect(status(view.real("shared/\(name)"))?.st_gid == Self.staff)
    }
    #expect(status(view.real("shared/inner"))?.permissions == 0o2755)
    #expect(status(view.real("shared/file"))?.permissions == 0o644)
  }

  @Test func stickyDirectory_protectsFilesFromOtherUsers() throws {
    let view = try view()
    chmod(view.real("open"), 0o1777)
    #expect(view.run(as: Self.anna, "printf mine >open/notes.txt").status == 0)
    #expect(view.run(as: Self.bert, "rm -f open/notes").status != 0)
    #expect(view.run(as: Self.bert, "mv open/notes open/other").status != 0)
    #expect(view.run(as: Self.bert, "printf x >open/own && mv open/own open/notes").status != 0)
    #expect(text(view.real("open/notes.txt")) == "mine")
    #expect(view.run(as: Self.anna, "mv open/notes open/other && rm open/other").status == 0)
  }

  @Test func umaskOfClient_isApplied() throws {
    let view = try view()
    #expect(
      view.run(
        as: Self.anna,
        "umask 027; : >open/file; mkdir open/directory; umask 0; : >open/all; mkdir open/free"
      ).status == 0)
    #expect(status(view.real("open/file"))?.permissions == 0o640)
    #expect(status(view.real("open/directory"))?.permissions == 0o750)
    #expect(status(view.real("open/all"))?.permissions == 0o666)
    #expect(status(view.real("open/free"))?.permissions == 0o777)
  }

  @Test(.accessControlLists) func accessControlLists_areEnforcedAndInherited() throws {
    let view = try view { root in
      try put("for bert", at: "\(root)/letter.txt")
      chmod("\(root)/letter.txt", 0o600)
    }
    try #require(Shell.run("setfacl -m u:\(Self.bert):r letter.txt", in: view.source).status == 0)
    #expect(view.run(as: Self.bert, "cat letter").text == "for bert")
    #expect(view.run(as: Self.anna, "cat letter").status != 0)
    let through = view.shell(
      "setfacl -m u:\(Self.anna):rw letter && setfacl -d -m u:\(Self.bert):rwx,g::-,o::- open")
    #expect(through.status == 0, "\(through.errorText)")
    #expect(view.run(as: Self.anna, "printf x >>letter").status == 0)
    // Where there is a default list, it takes the place of the umask.
    let made = view.run(
      as: Self.anna, "umask 077; mkdir open/inner; printf y >open/inner/file.txt; : >open/file.txt")
    #expect(made.status == 0, "\(made.errorText)")
    #expect(view.run(as: Self.bert, "cat open/inner/file").text == "y")
    let direct = Shell.run(
      "umask 077; mkdir open/direct; : >open/direct.txt; for e in inner direct; do getfacl -cpE open/$e >$e.acl; done; "
        + "for e in file direct; do getfacl -cpE open/$e.txt >$e.acl2; done; cmp inner.acl direct.acl && cmp file.acl2 direct.acl2",
      in: view.source)
    #expect(direct.status == 0, "\(direct.text) \(direct.errorText)")
    let lists = "getfacl -cpnE open open/inner open/file.txt letter.txt"
    #expect(view.shell(lists).text == Shell.run(lists, in: view.source).text)
  }

  @Test func contentChangesAndChown_clearSetIDBits() throws {
    let view = try view { root in
      for name in ["write", "truncate", "chown", "fallocate"] {
        try put("program", at: "\(root)/open/\(name)")
        chown("\(root)/open/\(name)", Self.anna, Self.anna)
        chmod("\(root)/open/\(name)", 0o6777)
      }
    }
    #expect(view.run(as: Self.bert, "printf x >>open/write").status == 0)
    #expect(status(view.at("open/write"))?.permissions == 0o777)
    #expect(status(view.real("open/write"))?.permissions == 0o777)
    #expect(view.run(as: Self.bert, "truncate -s 3 open/truncate").status == 0)
    #expect(status(view.real("open/truncate"))?.permissions == 0o777)
    #expect(view.run(as: Self.bert, "fallocate -l 10000 open/fallocate").status == 0)
    #expect(status(view.real("open/fallocate"))?.permissions == 0o777)
    #expect(view.run(as: Self.anna, "chgrp \(Self.anna) open/chown").status == 0)
    #expect(status(view.real("open/chown"))?.permissions == 0o777)
  }

  private static let origin = "user.com.apple.metadata:kMDItemWhereFroms"

  /// A file's attributes stay with its name at a save, but a user gets none that it could not read.
  @Test(arguments: [
    "os.rename('open/diary', 'open/kept'); open('open/diary', 'x')",
    "os.unlink('open/diary'); open('open/diary', 'x')",
    "open('open/own', 'x'); os.rename('open/own', 'open/diary')",
  ])
  func savedFile_getsNoAttributesThatItsWriterMayNotRead(save: String) throws {
    let view = try view { root in
      for (name, mode) in [("diary", 0o600), ("letter", 0o644)] as [(String, mode_t)] {
        let path = "\(root)/open/\(name).txt"
        try put("private", at: path)
        try #require(setAttribute(Self.origin, to: Array("secret".utf8), of: path) == nil)
        try #require(chown(path, Self.anna, Self.anna) == 0 && chmod(path, mode) == 0)
      }
    }
    #expect(view.run(as: Self.bert, "getfattr -n \(Self.origin) open/diary").status != 0)
    let readable = save.replacing("diary", with: "letter").replacing("kept", with: "moved")
    for script in [save, readable] {
      let outcome = PythonProgram(script, as: Self.bert, in: view.mountPoint).run()
      #expect(outcome.status == 0, "\(outcome.complaint)")
    }
    func saved(_ name: String) -> String? {
      ["\(name).txt", name].map { view.real("open/\($0)") }.first { status($0)?.st_uid == Self.bert }
    }
    #expect(attributeBytes(Self.origin, of: try #require(saved("diary"))) == nil)
    #expect(attributeBytes(Self.origin, of: try #require(saved("letter"))) == Array("secret".utf8))
  }

  @Test func tunnelByTime_givesNoAttributesToAnotherUser() throws {
    let view = try view("allow_other,tunnel=time") { root in
      let path = "\(root)/open/diary.txt"
      try put("private", at: path)
      try #require(setAttribute(Self.origin, to: Array("secret".utf8), of: path) == nil)
      try #require(chown(path, Self.anna, Self.anna) == 0 && chmod(path, 0o600) == 0)
    }
    #expect(view.run(as: Self.anna, "rm open/diary").status == 0)
    #expect(view.run(as: Self.bert, ": >open/diary").status == 0)
    #expect(status(view.real("open/diary.txt"))?.st_uid == Self.bert)
    #expect(attributeBytes(Self.origin, of: view.real("open/diary.txt")) == nil)
  }

  /// A user may rename a file of another over an own one, but not give it attributes. The owner of a file may give it some,
  /// whatever its mode.
  @Test func renamedFile_getsNoAttributesThatTheClientMayNotSet() throws {
    let view = try view { root in
      for name in ["notes", "letter"] {
        try put("x", at: "\(root)/open/\(name).txt")
        try #require(
          setAttribute(Self.origin, to: Array("chosen".utf8), of: "\(root)/open/\(name).txt") == nil)
        try #require(chown("\(root)/open/\(name).txt", Self.bert, Self.bert) == 0)
      }
      try put("root", at: "\(root)/open/other")
      chmod("\(root)/open/other", 0o600)
    }
    #expect(view.run(as: Self.bert, "mv -f open/other open/notes").status == 0)
    #expect(text(view.real("open/notes.txt")) == "root")
    #expect(attributeBytes(Self.origin, of: view.real("open/notes.txt")) == nil)
    let saved = view.run(as: Self.bert, "umask 333; : >open/own; mv -f open/own open/letter")
    #expect(saved.status == 0, "\(saved.complaint)")
    #expect(status(view.real("open/letter.txt"))?.permissions == 0o444)
    #expect(attributeBytes(Self.origin, of: view.real("open/letter.txt")) == Array("chosen".utf8))
  }

  @Test func mountOfRoot_withoutAllowOther_isClosedToUsers() throws {
    let view = try view("")
    #expect(view.run(as: Self.anna, "ls").status != 0)
    for name in ["user.displayfs.status", "system.displayfs.status"] {
      let shown = PythonProgram(
        "print(os.getxattr('\(view.mountPoint)', '\(name)'))", as: Self.anna
      ).run()
      #expect(!shown.text.contains("requests"), "\(name): \(shown.text)")
    }
    #expect(view.shell("ls").text == "open")
  }

  @Test func owner_changesAttributesOfOwnFileOnly() throws {
    let view = try view()
    #expect(
      view.run(as: Self.anna, ": >open/notes.txt; chmod 600 open/notes; touch -d @1000000000.5 open/notes")
        .status == 0)
    let file = try #require(status(view.real("open/notes.txt")))
    #expect(file.permissions == 0o600)
    #expect(file.st_mtim.tv_sec == 1_000_000_000 && file.st_mtim.tv_nsec == 500_000_000)
    #expect(view.run(as: Self.anna, "chown \(Self.bert) open/notes").status != 0)
    #expect(view.run(as: Self.bert, "chmod 777 open/notes").status != 0)
    #expect(chown(view.at("open/notes"), Self.bert, Self.bert) == 0)
    #expect(status(view.real("open/notes.txt"))?.st_uid == Self.bert)
    #expect(view.run(as: Self.bert, "cat open/notes").status == 0)
  }

  @Test func package_notRemovableByUser_stays() throws {
    let view = try view { root in
      try put("x", at: "\(root)/Album.photoslibrary/x")
      try put("x", at: "\(root)/open/Mine.rtfd/locked/x")
      chown("\(root)/open/Mine.rtfd", Self.anna, Self.anna)
      try put("x", at: "\(root)/open/Sticky.rtfd/x")
    }
    #expect(view.run(as: Self.anna, "rm -f Album").status != 0)
    #expect(isThere(view.real("Album.photoslibrary/x")))
    chmod(view.real("open"), 0o1777)
    #expect(view.run(as: Self.anna, "rm -f open/Sticky").status != 0)
    #expect(isThere(view.real("open/Sticky.rtfd/x")))
  }

  /// The kernel uses its cached attributes of an open file. A set-user-ID bit that stays on a file that root owns by now would
  /// give its writer all of root's rights.
  @Test(arguments: [
    "fchmod(file, 0o4777)", "fchown(file, -1, \(anna))", "utime(file, (1, 1))",
    "setxattr(file, 'system.posix_acl_access', acl)",
  ])
  func openFile_givenToAnotherOwner_isNotChanged(_ change: String) throws {
    let view = try view { root in
      try put("program", at: "\(root)/open/tool")
      chown("\(root)/open/tool", Self.anna, Self.anna)
      chmod("\(root)/open/tool", 0o755)
    }
    let owner = PythonProgram(
      """
      import struct
      file = os.open("open/tool", os.O_RDWR)
      entry = lambda tag, mode, who=0xffffffff: struct.pack("<HHI", tag, mode, who)
      acl = struct.pack("<I", 2) + entry(1, 7) + entry(2, 7, \(Self.anna)) + entry(4, 5) + entry(16, 7) + entry(32, 5)
      os.close(os.open("open/ready", os.O_CREAT))
      while os.path.exists("\(view.real("open/ready"))"): time.sleep(0.01)
      try: os.\(change)
      except PermissionError: sys.exit(0)
      sys.exit(1)
      """, as: Self.anna, in: view.mountPoint
    ).start()
    try waitUntil { isThere(view.real("open/ready")) }
    chown(view.real("open/tool"), 0, 0)
    chmod(view.real("open/tool"), 0o755)
    unlink(view.real("open/ready"))
    #expect(owner.wait() == 0)
    #expect(status(view.real("open/tool"))?.permissions == 0o755)
  }

  /// Operations in a group's directory that only members may do.
  @Test func everyChangeOfNames_honorsSupplementaryGroups() throws {
    let view = try view { root in
      for name in ["team", "team/inner", "team/empty"] {
        makeDirectory("\(root)/\(name)")
        chown("\(root)/\(name)", 0, Self.staff)
        chmod("\(root)/\(name)", 0o2770)
      }
      for name in ["a.txt", "b.txt", "c.txt", "Letter.rtfd/TXT.rtf"] {
        try put("x", at: "\(root)/team/\(name)")
      }
      _ = Shell.run("chown -R 0:\(Self.staff) '\(root)/team' && chmod -R g+rwX '\(root)/team'")
    }
    let scripts = [
      "mv team/a team/z", "mv team/b team/inner/b", "rm team/c", "rmdir team/empty", "ln -s x team/link",
      "mkfifo team/pipe",
      "mkdir team/new", "cat team/Letter >/dev/null && mv team/Letter team/Note", "rm team/Note",
      "truncate -s 9 team/z",
      "touch team/z", "ls team", "setfattr -n user.tag -v x team/z",
    ]
    for script in scripts {
      #expect(view.run(as: Self.anna, script).status != 0, "\(script), by somebody else")
      let outcome = view.run(as: Self.bert, groups: [62001, Self.staff], script)
      #expect(outcome.status == 0, "\(script): \(outcome.complaint)")
    }
    #expect(view.realListing("team") == ["z.txt", "inner", "link", "pipe", "new"])
    #expect(status(view.real("team/new"))?.st_gid == Self.staff)
    #expect(status(view.real("team/new"))?.st_uid == Self.bert)
  }

  /// As on the backing file system, which clears the bit itself when a user outside the group sets an access list.
  @Test(.accessControlLists) func setfacl_byOwnerOutsideGroup_clearsSetGroupIDBit() throws {
    let view = try view { root in
      for name in ["shown", "real"] {
        try put("program", at: "\(root)/open/\(name)")
        chown("\(root)/open/\(name)", Self.anna, Self.staff)
        chmod("\(root)/open/\(name)", 0o2755)
      }
    }
    let set = "setfacl -m u:\(Self.bert):rx"
    try #require(view.run(as: Self.anna, "\(set) '\(view.real("open/real"))'").status == 0)
    #expect(view.run(as: Self.anna, "\(set) open/shown").status == 0)
    #expect(status(view.real("open/shown"))?.permissions == status(view.real("open/real"))?.permissions)
    chmod(view.real("open/shown"), 0o2755)
    #expect(view.run(as: Self.anna, groups: [Self.staff], "\(set) open/shown").status == 0)
    #expect(status(view.real("open/shown"))?.permissions == 0o2755)
  }

  /// An error that the kernel gets for an access list is that of the permission check.
  @Test func fileOnFileSystemWithoutAccessLists_isOpenToItsGroup() throws {
    let view = try view { root in
      let outcome = Shell.run("mount -t ramfs none '\(root)/open'")
      try #require(outcome.status == 0, "\(outcome.complaint)")
      chmod("\(root)/open", 0o755)
      try put("content", at: "\(root)/open/shared")
      chown("\(root)/open/shared", 0, Self.staff)
      chmod("\(root)/open/shared", 0o640)
    }
    #expect(
      setAttribute("system.posix_acl_access", to: [2, 0, 0, 0], of: view.real("open/shared")) == .notSupported
    )
    let outcome = view.run(as: Self.anna, groups: [Self.staff], "cat open/shared")
    #expect(outcome.text == "content", "\(outcome.complaint)")
    #expect(view.run(as: Self.bert, "cat open/shared").errorText.hasSuffix("Permission denied"))
  }

  @Test(.temporaryFiles) func temporaryFile_belongsToItsCreator() throws {
    let view = try view()
    let outcome = PythonProgram(
      """
      os.umask(0o027)
      file = os.open("open", os.O_TMPFILE | os.O_RDWR, 0o666)
      os.write(file, b"made")
      # Only with a directory does Python follow the link as it is told.
      os.link(f"/proc/self/fd/{file}", "open/named", src_dir_fd=file, follow_symlinks=True)
      print("named")
      """, as: Self.anna, in: view.mountPoint
    ).run()
    #expect(outcome.status == 0, "\(outcome.complaint)")
    let made = try #require(status(view.real("open/named")))
    #expect(made.st_uid == Self.anna && made.st_gid == Self.anna && made.permissions == 0o640)
  }

  @Test(.fileCapabilities, arguments: ["allow_other", "allow_other,passthrough=off"])
  func write_removesFileCapabilities(options: String) throws {
    let capability = Machine.netRaw
    let view = try view(options) { root in
      try put("program", at: "\(root)/open/tool")
      chmod("\(root)/open/tool", 0o777)
    }
    try #require(setAttribute("security.capability", to: capability, of: view.real("open/tool")) == nil)
    #expect(attributeBytes("security.capability", of: view.at("open/tool")) == capability)
    let outcome = view.run(as: Self.bert, "printf x >>open/tool")
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(attributeBytes("security.capability", of: view.real("open/tool")) == nil)
  }
}
