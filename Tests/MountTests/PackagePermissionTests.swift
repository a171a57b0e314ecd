import Glibc
import SystemPackage
import Testing

/// A client has the same permissions on a package as on the file that the package is shown as.
@Suite(.mounting, .asRoot) struct PackagePermissionTests {
  private static let anna: uid_t = 61001
  private static let bert: uid_t = 61002

  private func view() throws -> MountedView {
    try MountedView("allow_other") { root in
      chmod(root, 0o777)
      try put("secret", at: "\(root)/Letter.rtfd/TXT.rtf")
      for path in ["Letter.rtfd", "Letter.rtfd/TXT.rtf"] { chown("\(root)/\(path)", Self.anna, Self.anna) }
    }
  }

  private func permissions(_ path: String) -> mode_t? { status(path).map { $0.st_mode & 0o7777 } }

  /// - Returns: what was written to the standard output.
  private func run(_ view: MountedView, as user: uid_t, groups: [gid_t] = [], _ script: String) -> String {
    let outcome = view.run(as: user, groups: groups, script)
    #expect(outcome.status == 0, "\(script): \(outcome.errorText)")
    return outcome.text
  }

  @Test func copyOfPackage_hasSearchBitsOfReadBits() throws {
    let view = try view()
    _ = run(
      view, as: Self.anna, "umask 077; cp Letter Private; chmod 640 Private; cp -p Private 'Private too'")
    #expect(permissions(view.real("Private too.rtfd")) == 0o750)
    _ = run(view, as: Self.anna, "umask 077; cp Letter Mine; umask 022; cp Letter Ours")
    #expect(permissions(view.real("Mine.rtfd")) == 0o700)
    #expect(permissions(view.real("Ours.rtfd")) == 0o755)
    #expect(run(view, as: Self.bert, "cat Mine.rtfd/TXT.rtf || true; cat Ours.rtfd/TXT.rtf") == "secret")
  }

  @Test func importedPackage_hasAttributesOfFile() throws {
    let view = try view()
    let outcome = PythonProgram(
      """
      file = os.open("Copy", os.O_CREAT | os.O_WRONLY)
      os.write(file, open("Letter", "rb").read())
      os.setxattr(file, "user.tag", b"mine")
      """, in: view.mountPoint
    ).run()
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(attribute("user.tag", of: view.at("Copy")) == "mine")
    #expect(status(view.real("Copy.rtfd"))?.isDirectory == true)
    #expect(attribute("user.tag", of: view.real("Copy.rtfd")) == "mine")
  }

  @Test func readOnlyPackage_isCopiedWithAttributes() throws {
    let view = try view()
    try #require(setAttribute("user.tag", to: Array("mine".utf8), of: view.real("Letter.rtfd")) == nil)
    chmod(view.real("Letter.rtfd"), 0o555)
    _ = run(view, as: Self.anna, "cp -a Letter Copy")
    #expect(permissions(view.real("Copy.rtfd")) == 0o555)
    #expect(attribute("user.tag", of: view.real("Copy.rtfd")) == "mine")
  }

  @Test func importedPackage_hasGroupOfFile() throws {
    let view = try view()
    _ = run(
      view, as: Self.anna, groups: [62000],
      "cp Letter .draft; chgrp 62000 .draft; chmod 640 .draft; mv .draft Group; cp Letter Own")
    for part in ["", "/TXT.rtf"] {
      #expect(status(view.real("Group.rtfd\(part)"))?.st_gid == 62000)
      #expect(status(view.real("Own.rtfd\(part)"))?.st_gid == Self.anna)
    }
    #expect(permissions(view.real("Group.rtfd")) == 0o750)
  }

  /// Runs a command as bert that the modes of a copy must not let succeed, in the view and in the tree.
  private func expectRefused(_ view: MountedView, _ command: String) {
    for directory in [view.mountPoint, view.source] {
      let outcome = view.run(as: Self.bert, "cd '\(directory)' && \(command)")
      #expect(outcome.status != 0, "\(command) in \(directory)")
    }
  }

  @Test func copyOfPackageOpenToAll_canBeWrittenByItsOwnerAlone() throws {
    let view = try view()
    let script =
      "mkdir box; touch box/tool; mkfifo box/pipe; chmod 777 . box box/tool; chmod 666 TXT.rtf box/pipe"
    try #require(Shell.run(script, in: view.real("Letter.rtfd")).status == 0)
    _ = run(view, as: Self.anna, "umask 022; cp Letter Report")
    expectRefused(view, "echo changed >>Report.rtfd/TXT.rtf")
    expectRefused(view, "echo new >Report.rtfd/box/new")
    let expected =
      ["": 0o755, "/TXT.rtf": 0o644, "/box": 0o755, "/box/tool": 0o755, "/box/pipe": 0o644]
      as [String: mode_t]
    for (part, mode) in expected { #expect(permissions(view.real("Report.rtfd\(part)")) == mode, "\(part)") }
  }

  @Test func copyOfPackageWithAccessLists_grantsWhatFileGrants() throws {
    let view = try view()
    let (package, list) = (view.real("Letter.rtfd"), "system.posix_acl_access")
    makeDirectory("\(package)/box")
    chown("\(package)/box", Self.anna, Self.anna)
    try #require(
      Shell.run("setfacl -R -m u:\(Self.bert):rwX,d:u:\(Self.bert):rwx,g::rX '\(package)'").status == 0)
    _ = run(
      view, as: Self.anna, "umask 027; cp Letter Secret; umask 022; cp Letter Report; cp -a Letter Copy")
    for name in ["Secret", "Report"] {
      #expect(attributeBytes(list, of: view.real("\(name).rtfd")) == nil)
      expectRefused(view, "echo changed >>\(name).rtfd/TXT.rtf")
    }
    #expect(permissions(view.real("Secret.rtfd")) == 0o750)
    expectRefused(view, "cat Secret.rtfd/TXT.rtf")
    // What is made there later has no list that grants more.
    _ = run(view, as: Self.anna, "umask 022; echo new >Report.rtfd/box/new")
    expectRefused(view, "echo changed >>Report.rtfd/box/new")
    #expect(run(view, as: Self.bert, "cat Report.rtfd/TXT.rtf") == "secret")
    // The file that `cp -a` made has the list of the original.
    for part in ["", "/TXT.rtf", "/box"] {
      for list in [list, "system.posix_acl_default"] {
        #expect(
          attributeBytes(list, of: "\(package)\(part)")
            == attributeBytes(list, of: view.real("Copy.rtfd\(part)")))
      }
    }
    #expect(run(view, as: Self.bert, "echo . >>Copy.rtfd/TXT.rtf; cat Copy.rtfd/TXT.rtf") == "secret.")
  }

  /// Programs set the mode of a copy by its name, after they have closed it.
  @Test func copyOpenedToOthersLater_hasReadableParts() throws {
    let view = try view()
    _ = run(view, as: Self.anna, "umask 077; cp Letter Copy; chmod 644 Copy")
    #expect(run(view, as: Self.bert, "tar -xOf Copy ./TXT.rtf") == "secret")
  }

  /// As root restores a backup: the copy is given to its owner before it is closed, or before it is renamed to its name.
  @Test(
    .needing("rsync"),
    arguments: [
      "cp -a Letter Copy", "cp -a Letter .draft && mv .draft Copy",
      "rsync -a Letter away/ && mv away/Letter Copy",
    ])
  func copyByRoot_belongsToOwnerOfOriginal(script: String) throws {
    let view = try view()
    chmod(view.real("Letter.rtfd/TXT.rtf"), 0o6644)
    _ = run(view, as: 0, "mkdir away; \(script)")
    for path in ["Copy.rtfd", "Copy.rtfd/TXT.rtf"] {
      let copy = try #require(status(view.real(path)), "\(path)")
      #expect(copy.st_uid == Self.anna && copy.st_gid == Self.anna, "\(path)")
      #expect(copy.st_mode & (S_ISUID | S_ISGID) == 0, "\(path)")
    }
    #expect(text(view.real("Copy.rtfd/TXT.rtf")) == "secret")
  }

  @Test func streamOfAnotherUser_closedByRoot_staysFile() throws {
    let view = try view()
    let stream = try #require(contents(view.at("Letter")))
    try put(stream, at: view.real("Drop"))
    chown(view.real("Drop"), Self.bert, Self.bert)
    _ = run(view, as: 0, ": >>Drop; exec 3<>Drop")
    #expect(contents(view.real("Drop")) == stream)
    _ = run(view, as: Self.bert, ": >>Drop")
    #expect(status(view.real("Drop.rtfd"))?.st_uid == Self.bert)
  }

  /// As setfacl(1) does it.
  @Test func accessListOfPackage_grantsSearchWithRead() throws {
    let view = try view()
    let list = "system.posix_acl_access"
    let user = withUnsafeBytes(of: Self.bert.littleEndian) { Array($0) }
    let none = [UInt8](repeating: 0xff, count: 4)
    // The owner, another user, the group, the mask, others.
    let file: [UInt8] =
      [2, 0, 0, 0]
      + [1, 0, 6, 0] + none + [2, 0, 4, 0] + user + [4, 0, 0, 0] + none + [0x10, 0, 4, 0] + none + [
        0x20, 0, 0, 0,
      ] + none
    #expect(setAttribute(list, to: file, of: view.at("Letter")) == nil)
    #expect(attributeBytes(list, of: view.at("Letter")) == file)
    #expect(permissions(view.at("Letter")) == 0o640)
    #expect(permissions(view.real("Letter.rtfd")) == 0o750)
    #expect(run(view, as: Self.bert, "tar -xOf Letter ./TXT.rtf") == "secret")
    // It goes with a copy.
    _ = run(view, as: Self.anna, "cp --preserve=mode Letter Copy")
    #expect(permissions(view.real("Copy.rtfd")) == 0o750)
    #expect(run(view, as: Self.bert, "tar -xOf Copy ./TXT.rtf") == "secret")
  }

  @Test func chmod_keepsBitsOfDirectoryThatAreNotShown() throws {
    let view = try view()
    chmod(view.real("Letter.rtfd"), 0o3755)
    _ = run(view, as: Self.anna, "chmod 640 Letter")
    #expect(permissions(view.real("Letter.rtfd")) == 0o3750)
  }

  @Test func chmodToShownMode_restoresSearchBits() throws {
    let view = try view()
    chmod(view.real("Letter.rtfd"), 0o644)
    _ = run(view, as: Self.anna, "chmod 644 Letter; tar -xOf Letter ./TXT.rtf")
    #expect(permissions(view.real("Letter.rtfd")) == 0o755)
  }
}
