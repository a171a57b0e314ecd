import Glibc
import SystemPackage
import Testing

/// A client gets at a part of a package exactly when it gets at it in the backing tree, whatever the daemon may do. The kernel
/// does not check that: it knows nothing of the parts.
@Suite(.mounting, .asRoot) struct CredentialTests {
  private static let anna: uid_t = 61001
  private static let bert: uid_t = 61002
  private static let staff: gid_t = 62000
  /// root's groups on a usual machine, and one of the tests'.
  private static let daemonsGroups = "0,4,27,42,62000"

  /// A view with a daemon that was started from a login with many groups.
  private func view(_ options: String = "allow_other", build: (String) throws -> Void) throws -> MountedView {
    let view = try MountedView(options) { root in
      chmod(root, 0o777)
      try build(root)
    }
    view.unmount()
    let mount = ["mount", "-o", options + ",language=en", view.source, view.mountPoint]
    let outcome = Shell.run(["setpriv", "--groups=\(Self.daemonsGroups)", Displayfs.path] + mount)
    try #require(outcome.status == 0, "\(outcome.complaint)")
    return view
  }

  private func put(_ content: String, at path: String, _ owner: uid_t, _ group: gid_t, _ mode: mode_t) throws
  {
    try MountTests.put(content, at: path)
    chown(path, owner, group)
    chmod(path, mode)
  }

  /// A stream is remembered once nothing of its package has changed for two seconds (`PackageStamp.isSettled`).
  private func waitUntilStreamsAreCacheable() { usleep(3_200_000) }

  @Test func daemon_startedWithSupplementaryGroups_dropsThem() throws {
    let view = try view { root in try MountTests.put("x", at: "\(root)/notes.txt") }
    let daemon = try #require(view.daemon)
    for thread in names("/proc/\(daemon)/task") {
      let status = text("/proc/\(daemon)/task/\(thread)/status") ?? ""
      let groups = status.split(separator: "\n").first { $0.hasPrefix("Groups:") }
      #expect(groups?.dropFirst(7).allSatisfy(\.isWhitespace) == true, "\(groups ?? "")")
    }
  }

  /// Each script gets a fresh daemon, with workers that have not served a client with groups yet.
  @Test(arguments: [
    "cat Letter", "head -c 4096 Letter", "cp Letter Copy", "tar -xOf Letter ./TXT.rtf",
    "cat Letter.rtfd/TXT.rtf",
  ])
  func partOfPackage_readableByDaemonGroupsOnly_isRefused(script: String) throws {
    let view = try view { root in
      try put("secret", at: "\(root)/Letter.rtfd/TXT.rtf", 0, Self.staff, 0o640)
    }
    for _ in 0..<12 {
      let outcome = view.run(as: Self.bert, script)
      #expect(!outcome.text.contains("secret") && !outcome.text.contains("TXT"), "\(outcome.text)")
      #expect(outcome.status != 0)
    }
    #expect(!(contents(view.real("Copy")) ?? []).contains("secret".utf8))
    // A member reads it all the same.
    #expect(view.run(as: Self.bert, groups: [Self.staff], "tar -xOf Letter ./TXT.rtf").text == "secret")
  }

  @Test func directoryInPackage_searchableByDaemonGroupsOnly_isRefused() throws {
    let view = try view { root in
      try put("", at: "\(root)/Letter.rtfd/private/salary-of-anna", 0, 0, 0o644)
      chown("\(root)/Letter.rtfd/private", 0, Self.staff)
      chmod("\(root)/Letter.rtfd/private", 0o750)
    }
    for _ in 0..<12 {
      let outcome = view.run(as: Self.bert, "cat Letter")
      #expect(outcome.status != 0 && !outcome.text.contains("salary"), "\(outcome.text)")
    }
  }

  /// What is remembered of a stream comes from a client that may read more.
  @Test func cachedStreamBeginning_withNamesClientMayNotList_isRefused() throws {
    let view = try view { root in
      try put("", at: "\(root)/Letter.rtfd/private/salary-of-anna", 0, 0, 0o644)
      chmod("\(root)/Letter.rtfd/private", 0o700)
    }
    waitUntilStreamsAreCacheable()
    #expect(view.run(as: 0, "head -c 4096 Letter").text.contains("salary-of-anna"))
    let outcome = view.run(as: Self.bert, "head -c 4096 Letter")
    #expect(outcome.status != 0 && !outcome.text.contains("salary"), "\(outcome.text)")
  }

  @Test func cachedStreamBeginning_withAttributesClientMayNotRead_isRefused() throws {
    let view = try view { root in
      try put("", at: "\(root)/Letter.rtfd/TXT.rtf", 0, 0, 0o600)
      try #require(
        setAttribute("user.note", to: Array("secret".utf8), of: "\(root)/Letter.rtfd/TXT.rtf") == nil)
    }
    waitUntilStreamsAreCacheable()
    #expect(view.run(as: 0, "head -c 4096 Letter").text.contains("secret"))
    let outcome = view.run(as: Self.bert, "head -c 4096 Letter")
    #expect(outcome.status != 0 && !outcome.text.contains("secret"), "\(outcome.text)")
  }

  /// The size is that of the whole stream, whichever client has opened the package last.
  @Test func sizeOfPackage_afterOpenByClientWithFewerRights_isUnchanged() throws {
    let view = try view { root in
      try put("x", at: "\(root)/Letter.rtfd/sparse", 0, 0, 0o600)
      truncate("\(root)/Letter.rtfd/sparse", 4 << 20)
    }
    waitUntilStreamsAreCacheable()
    let size = try #require(status(view.at("Letter"))?.st_size)
    #expect(view.run(as: Self.bert, "cat Letter").status != 0)
    #expect(status(view.at("Letter"))?.st_size == size)
    #expect(view.run(as: 0, "cat Letter | wc -c").text == "\(size)")
  }

  /// A mode may grant to others what it denies to a group (0604).
  @Test func partOfPackage_deniedToSupplementaryGroup_isRefusedToMembers() throws {
    let view = try view { root in try put("secret", at: "\(root)/Letter.rtfd/TXT.rtf", 0, Self.staff, 0o604) }
    #expect(view.run(as: Self.bert, groups: [Self.staff], "cat \"$SOURCE/Letter.rtfd/TXT.rtf\"").status != 0)
    let outcome = view.run(as: Self.bert, groups: [Self.staff], "cat Letter")
    #expect(outcome.status != 0 && !outcome.text.contains("secret"))
    #expect(view.run(as: Self.bert, "tar -xOf Letter ./TXT.rtf").text == "secret")
  }

  @Test func accessToPartOfPackage_forEveryKindOfClient_isThatOfBackingTree() throws {
    let view = try view { root in
      for (name, group, mode) in [
        ("Mine.rtfd", 0, 0o600), ("Wheel.rtfd", 0, 0o640), ("Staff.rtfd", Self.staff, 0o640),
        ("All.rtfd", 0, 0o644), ("None.rtfd", 0, 0),
      ] as [(String, gid_t, mode_t)] {
        try put("secret", at: "\(root)/\(name)/TXT.rtf", 0, group, mode)
      }
    }
    let clients: [(uid_t, gid_t, [gid_t])] = [
      (0, 0, []), (0, Self.staff, []), (0, 61001, [61002]), (Self.bert, 0, []), (Self.bert, Self.bert, []),
      (Self.bert, Self.staff, []), (Self.bert, Self.bert, [0]), (Self.bert, Self.bert, [61001, Self.staff]),
    ]
    for (user, group, groups) in clients {
      for name in ["Mine", "Wheel", "Staff", "All", "None"] {
        let real = view.run(as: user, group: group, groups: groups, "cat \"$SOURCE/\(name).rtfd/TXT.rtf\"")
        let shown = view.run(as: user, group: group, groups: groups, "cat \(name)")
        #expect((real.status == 0) == (shown.status == 0), "\(name) for \(user):\(group) \(groups)")
        #expect(shown.text.contains("secret") == real.text.contains("secret"))
      }
    }
  }

  /// As of any descriptor, the rights are those at the time of the open: the process may have other groups later, and another
  /// process may have its number.
  @Test func openStream_isReadWithGroupsAtOpen() throws {
    let view = try view { root in
      // More than are kept open from one read to the next.
      for part in 0..<8 {
        try put(
          String(repeating: "secret", count: 2_000), at: "\(root)/Letter.rtfd/\(part)", 0, Self.staff, 0o640)
      }
    }
    let outcome = PythonProgram(
      """
      os.setgroups([\(Self.staff)])
      os.setresgid(\(Self.bert), \(Self.bert), \(Self.bert))
      os.setresuid(\(Self.bert), \(Self.bert), 0)
      stream = os.open("Letter", os.O_RDONLY)
      os.seteuid(0); os.setgroups([]); os.seteuid(\(Self.bert))
      print(b"secret" in os.pread(stream, 1000, 80000))
      """, in: view.mountPoint
    ).run()
    #expect(outcome.text == "True", "\(outcome.complaint)")
  }

  @Test func stream_writtenByUser_isUnpackedWithGroupsOfUserOnly() throws {
    let view = try view { root in
      try put("x", at: "\(root)/Letter.rtfd/TXT.rtf", Self.bert, Self.bert, 0o644)
      makeDirectory("\(root)/team")
      chown("\(root)/team", 0, Self.staff)
      chmod("\(root)/team", 0o2770)
    }
    #expect(view.run(as: Self.bert, "cp Letter team/Copy").status != 0)
    #expect(names(view.real("team")) == [])
    let copied = view.run(as: Self.bert, groups: [Self.staff], "cp Letter team/Copy")
    #expect(copied.status == 0, "\(copied.complaint)")
    #expect(names(view.real("team")) == ["Copy.rtfd"])
    #expect(status(view.real("team/Copy.rtfd"))?.st_uid == Self.bert)
    #expect(status(view.real("team/Copy.rtfd"))?.st_gid == Self.staff)
  }

  @Test func packageWithDirectory_writableByDaemonGroupsOnly_isNotRemoved() throws {
    let view = try view { root in
      try put("x", at: "\(root)/Letter.rtfd/team/x", 0, Self.staff, 0o664)
      chown("\(root)/Letter.rtfd/team", 0, Self.staff)
      chmod("\(root)/Letter.rtfd/team", 0o775)
      chmod("\(root)/Letter.rtfd", 0o777)
    }
    for _ in 0..<12 { #expect(view.run(as: Self.bert, "rm -f Letter").status != 0) }
    #expect(text(view.real("Letter.rtfd/team/x")) == "x")
    #expect(view.run(as: Self.bert, groups: [Self.staff], "rm -f Letter").status == 0)
    #expect(!isThere(view.real("Letter.rtfd")))
  }

  /// A file system lists these names to a process with CAP_SYS_ADMIN alone.
  @Test(arguments: ["allow_other", "allow_other,appledouble=merge", "allow_other,profile=none"])
  func trustedAttributes_areListedAsInBackingTree(options: String) throws {
    let view = try view(options) { root in
      try MountTests.put("x", at: "\(root)/notes.txt")
      for name in ["trusted.secret", "user.note"] {
        try #require(setAttribute(name, to: Array("x".utf8), of: "\(root)/notes.txt") == nil)
      }
    }
    let program = """
      import errno
      for path in ("\(view.real("notes.txt"))", "\(view.at("notes.txt"))"): print(sorted(os.listxattr(path)))
      """
    let ordinary = PythonProgram(program, as: Self.bert).run()
    #expect(ordinary.text == "['user.note']\n['user.note']", "\(ordinary.complaint)")
    let root = PythonProgram(program).run()
    #expect(
      root.text == "['trusted.secret', 'user.note']\n['trusted.secret', 'user.note']", "\(root.complaint)")
    let list = "import os; print(sorted(os.listxattr('\(view.at("notes.txt"))')))"
    let restricted = Shell.run([
      "setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "python3", "-c", list,
    ])
    #expect(restricted.text == "['user.note']", "\(restricted.complaint)")
    let elsewhere = Shell.run(["unshare", "--user", "--map-root-user", "python3", "-c", list])
    #expect(elsewhere.text == "['user.note']", "\(elsewhere.complaint)")
  }
}
