import CLinux
import Glibc
import SystemPackage
import Testing

/// Queries of the view: the commands, and the extended attributes of a mount.
@Suite(.mounting) struct QueryTests {
  private func view() throws -> MountedView { try MountedView("language=de", build: TestTree.build) }

  private func query(_ view: MountedView, _ arguments: String...) -> Outcome {
    Displayfs.run(arguments, with: ["LC_ALL": "de_DE.UTF-8"])
  }

  /// What an expression of Python makes of the JSON that a command printed.
  private func json(_ outcome: Outcome, _ expression: String) -> String {
    Shell.run(
      [
        "python3", "-c", "import json, sys\nd = json.loads(sys.argv[1])\nprint((\(expression)))",
        outcome.text,
      ]
    ).text
  }

  @Test func realpath_mapsViewToBackingTree() throws {
    let view = try view()
    for (shown, real) in [
      ("Benutzer/anna/Dokumente/a", "Users/anna/Documents/a.txt"),
      ("Programme/Rechner", "Applications/Calculator.app"),
      ("Programme/Calculator.app", "Applications/Calculator.app"), ("Users", "Users"), (".hidden", ".hidden"),
      (
        "Benutzer/anna/Dokumente/Versionshinweise/1.0", "Users/anna/Documents/Release Notes.localized/1.0.txt"
      ),
    ] {
      let mounted = query(view, "realpath", view.at(shown))
      #expect(mounted.status == 0)
      #expect(mounted.text == view.real(real), "\(mounted.errorText)")
      // The same without a mount, by display names in the backing tree.
      let unmounted = query(view, "realpath", "--source", view.source, view.real(shown))
      #expect(unmounted.text == view.real(real), "\(unmounted.errorText)")
      #expect(json(query(view, "realpath", "--json", view.at(shown)), "d['realPath']") == view.real(real))
    }
    let absent = query(view, "realpath", view.real("absent"))
    #expect(absent.status == 2)
    #expect(absent.errorText.contains(view.real("absent")))
  }

  @Test func name_printsDisplayName() throws {
    let view = try view()
    for (real, shown) in [
      ("Users/anna/Documents/a.txt", "a"), ("Applications/Calculator.app", "Rechner"), ("Users", "Benutzer"),
      ("Users/anna/Documents/Release Notes.localized", "Versionshinweise"),
      ("Users/anna/Documents/same.txt", "same.txt"),
    ] {
      #expect(query(view, "name", view.real(real)).text == shown)
      #expect(query(view, "name", view.at(real)).text == shown)
      #expect(json(query(view, "name", "--json", view.real(real)), "d['displayName']") == shown)
    }
    #expect(query(view, "name", "-o", "language=fr", view.real("Users")).text == "Utilisateurs")
    #expect(
      query(view, "name", "-o", "extensions=show", view.real("Users/anna/Documents/a.txt")).text == "a.txt")
  }

  @Test func explain_reportsComparison() throws {
    let view = try MountedView("matching=caseless") { root in try put("x", at: "\(root)/Cafe\u{301}.txt") }
    let spellings = [
      ("Caf\u{e9}", "exact"), ("Cafe\u{301}.txt", "exact"), ("Cafe\u{301}", "canonical"),
      ("Caf\u{e9}.txt", "canonical"), ("CAF\u{c9}", "caseless"),
    ]
    for (name, comparison) in spellings {
      for path in [view.at(name), view.real(name)] {
        let text = query(view, "explain", "-o", "matching=caseless", path).text
        #expect(text.hasSuffix("\nmatching:     \(comparison)"), "\(path): \(text)")
        let json = query(view, "explain", "--json", "-o", "matching=caseless", path).text
        #expect(json.hasSuffix(", \"matching\": \"\(comparison)\"}"), "\(path): \(json)")
        let real = query(view, "realpath", "-o", "matching=caseless", path).output
        #expect(FileName(real.dropLast()) == FileName(view.real("Cafe\u{301}.txt")))
      }
    }
    #expect(!query(view, "explain", view.mountPoint).text.contains("matching:"))
    #expect(query(view, "explain", "-o", "matching=exact", view.real("CAF\u{c9}")).status == 2)
  }

  @Test func doctor_countsTwins() throws {
    let view = try MountedView { root in
      for name in ["\u{e9}", "e\u{301}", "README", "readme", "Readme", "sub/\u{c9}", "sub/a", "A"] {
        try put("x", at: "\(root)/\(name)")
      }
    }
    let text = query(view, "doctor", view.source).text
    #expect(
      text.contains("equal names: 2 entries have") && text.contains("and 5 but for case too"), "\(text)")
    #expect(query(view, "doctor", view.real("sub")).text.contains("equal names: no entry has"))
  }

  @Test func explain_printsReason() throws {
    let view = try view()
    let shown = query(view, "explain", view.real("Users/anna/Documents/a.txt"))
    #expect(shown.status == 0)
    for part in [
      "display name: a\n", "real name:    a.txt\n", "kind:         file", "Its extension is hidden.",
    ] {
      #expect(shown.text.contains(part), "\(shown.text)")
    }
    let secret = view.real("Users/anna/Downloads/secret.txt")
    #expect(query(view, "explain", secret).text.contains("Hidden."))
    let object = query(view, "explain", "--json", secret)
    #expect(json(object, "d['realName'], d['kind'], d['hidden']") == "('secret.txt', 'file', True)")
    let package = query(view, "explain", "--json", view.real("Applications/Calculator.app"))
    #expect(json(package, "d['displayName'], d['kind'], d['hidden']") == "('Rechner', 'package', False)")
    #expect(
      json(package, "sorted(d)")
        == "['backup', 'displayName', 'hidden', 'kind', 'matching', 'mimeType', 'realName', 'realPath', 'reason', 'type']"
    )
    #expect(query(view, "explain", view.real("absent")).status == 2)
  }

  @Test func ls_listsViewInEveryFormat() throws {
    let view = try view()
    let folder = view.real("Users/anna/Downloads")
    #expect(query(view, "ls", folder).text == "")
    #expect(query(view, "ls", "--all", folder).names == [".hidden", ".localized", "secret.txt"])
    #expect(
      query(view, "ls", "-l", view.real("Users")).names.contains(FileName("directory\tGeteilt\tShared")))
    let list = query(view, "ls", "--json", view.real(TestTree.documents))
    #expect(
      json(list, "[(e['realName'], e['kind']) for e in d if e['displayName'] == 'Letter']")
        == "[('Letter.rtfd', 'package')]")
    #expect(json(list, "any(e['hidden'] for e in d)") == "False")
    #expect(json(query(view, "ls", "--json", folder), "d") == "[]")
    #expect(query(view, "ls", view.real("absent")).status == 2)
    #expect(query(view, "ls", "-o", "extentions=all", folder).status == 1)
  }

  @Test(.extendedAttributes) func explain_ofForgedAttributes_reportsWhatIsSo() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path("a.txt")
    try put("x", at: path)
    for name in [
      "realname", "realpath", "displayname", "kind", "hidden", "reason", "type", "mimetype", "backup",
    ] {
      #expect(setAttribute("user.displayfs.\(name)", to: Array("forged".utf8), of: path) == nil)
    }
    #expect(Displayfs.run(["realpath", path]).text == path)
    #expect(Displayfs.run(["explain", path]).text.contains("real name:    a.txt\n"))
  }

  @Test func explain_reportsTypePurposeAndBackup() throws {
    let view = try MountedView("profile=home") { root in
      try put("x", at: "\(root)/Documents/report.pdf")
      try put("x", at: "\(root)/Documents/drawing.draw")
      try put("x", at: "\(root)/Library/Caches/data")
      try put(
        """
        <plist version="1.0"><dict><key>UTExportedTypeDeclarations</key><array><dict>
        <key>UTTypeIdentifier</key><string>org.example.drawing</string><key>UTTypeTagSpecification</key><dict>
        <key>public.filename-extension</key><array><string>draw</string></array></dict></dict></array></dict></plist>
        """, at: "\(root)/Applications/Draw.app/Contents/Info.plist")
    }
    for (name, type, mimeType, backup) in [
      ("Documents/report.pdf", "com.adobe.pdf", "application/pdf", "true"),
      ("Documents/drawing.draw", "org.example.drawing", "application/octet-stream", "true"),
      ("Documents", "public.folder", "inode/directory", "true"),
      ("Library/Caches/data", "public.data", "application/octet-stream", "false"),
      ("Applications/Draw", "com.apple.application-bundle", "application/x-displayfs-package", "true"),
    ] {
      let path = view.at(name)
      #expect(attribute("user.displayfs.type", of: path) == type, "\(name)")
      #expect(attribute("user.displayfs.mimetype", of: path) == mimeType, "\(name)")
      #expect(attribute("user.displayfs.backup", of: path) == backup, "\(name)")
      for queried in [path, view.real(name)] {
        let object = query(view, "explain", "--json", "-o", "profile=home", "--source", view.source, queried)
        #expect(
          json(object, "d['type'], d['mimeType'], str(d['backup']).lower()")
            == "('\(type)', '\(mimeType)', '\(backup)')",
          "\(queried): \(object.complaint)")
      }
    }
    let purpose = "It holds the user's documents."
    #expect(attribute("user.displayfs.purpose", of: view.at("Documents")) == purpose)
    #expect(attribute("user.displayfs.purpose", of: view.at("Documents/report")) == nil)
    #expect(
      query(view, "explain", view.at("Documents")).text.hasSuffix(
        "purpose:      \(purpose)\nmatching:     exact"))
    let list = query(
      view, "ls", "--json", "-o", "profile=home", "--source", view.source, view.real("Documents"))
    #expect(json(list, "[e['type'] for e in d]") == "['org.example.drawing', 'com.adobe.pdf']")
  }

  @Test(.extendedAttributes) func ls_backedUp_listsWhatTarMayTakeWhole() throws {
    let view = try MountedView("profile=home") { root in
      for path in [
        "Documents/a", "Documents/.b", "Library/Caches/x", "Library/Preferences/y", "Work/build/z",
        "Work/k\nept/w",
        "Gone/v", "Empty.rtfd/TXT.rtf",
      ] {
        try put("x", at: "\(root)/\(path)")
      }
      let list = Array("<plist><string>com.apple.backupd</string></plist>".utf8)
      for (path, attribute) in [
        ("Work/build", "user.com.apple.metadata:com_apple_backup_excludeItem"),
        ("Gone", "user.DosStream.com.apple.metadata\u{f022}com_apple_backup_excludeItem:$DATA"),
      ] {
        #expect(setAttribute(attribute, to: list, of: "\(root)/\(path)") == nil)
      }
    }
    let expected = ["Documents", "Empty.rtfd", "Library/Preferences", "Work/k\nept"].map(view.real)
    let list = query(
      view, "ls", "--backed-up", "-0", "-o", "profile=home", "--source", view.source, view.source)
    #expect(
      list.output.split(separator: 0).map { String(decoding: $0, as: UTF8.self) } == expected,
      "\(list.complaint)")
    #expect(attribute("user.displayfs.backup", of: view.at("Work/build/z")) == "false")
    #expect(attribute("user.displayfs.backup", of: view.at("Work/k\nept/w")) == "true")
    let archive = Shell.run(
      "'\(Displayfs.path)' ls --backed-up -0 -o profile=home --source . . | tar --null -T - -cf - 2>/dev/null | tar -tf -",
      in: view.source)
    #expect(archive.text.contains("Documents/.b") && !archive.text.contains("Caches"), "\(archive.text)")
    #expect(query(view, "ls", "--backed-up", "--json", view.source).errorText.contains("goes with none"))
  }

  /// tar reports what it cannot read, and archives the rest.
  @Test(.asRoot, .programForAll) func ls_backedUp_takesUnreadableDirectoryWhole() throws {
    let view = try MountedView { root in
      for path in ["Documents/a", "Documents/Closed/b", "Work/c"] { try put("x", at: "\(root)/\(path)") }
      chmod("\(root)/Documents/Closed", 0o700)
      chmod("\(root)/Documents", 0o755)
    }
    let list = OrdinaryUser.run(
      OrdinaryUser.other,
      [Displayfs.path, "ls", "--backed-up", "-o", "profile=home", "--source", view.source, view.source])
    let expected = ["Documents", "Work"].map(view.real)
    #expect(list.text.split(separator: "\n").map(String.init) == expected, "\(list.complaint)")
    #expect(list.status == 2)
    #expect(list.complaint.contains(view.real("Documents/Closed")))
  }

  /// Deeper than the stack and the descriptors of a process last for, if each level takes some.
  @Test(.extendedAttributes, .timeLimit(.minutes(2))) func ls_backedUp_ofDeepTree_isComplete() throws {
    let view = try MountedView { root in
      makeDirectory("\(root)/top")
      let deep = PythonProgram(
        """
        for level in range(1200): os.mkdir("d"); os.chdir("d")
        for name in ["kept", "left"]: os.mkdir(name)
        excluded = b"<plist><string>com.apple.backupd</string></plist>"
        os.setxattr("left", "user.com.apple.metadata:com_apple_backup_excludeItem", excluded)
        """, in: "\(root)/top"
      ).run()
      try #require(deep.status == 0, "\(deep.complaint)")
      try put("x", at: "\(root)/top/kept")
    }
    let list = query(view, "ls", "--backed-up", "--source", view.source, view.source)
    let kept = ["top/" + String(repeating: "d/", count: 1200) + "kept", "top/kept"].map(view.real)
    #expect(list.text.split(separator: "\n").map(String.init) == kept, "\(list.complaint)")
  }

  @Test func ls_sortsAsFinder_orByBytes() throws {
    let view = try MountedView("extensions=show") { root in
      for name in ["a10", "A9", "a2", "\u{e4}b", "b"] { try put("x", at: "\(root)/\(name)") }
    }
    func list(_ arguments: String...) -> [String] {
      Displayfs.run(["ls"] + arguments + [view.source], with: ["LC_ALL": "C.UTF-8"]).text.split(
        separator: "\n"
      ).map(String.init)
    }
    #expect(list() == ["a2", "A9", "a10", "\u{e4}b", "b"])
    #expect(list("--sort", "bytes") == ["A9", "a10", "a2", "b", "\u{e4}b"])
    #expect(list("--sort", "size") == [])
  }

  @Test(.locales) func ls_sortsByLanguage() throws {
    let view = try MountedView { root in
      for name in ["zebra", "\u{e4}pple", "apple", "Zoo"] { try put("x", at: "\(root)/\(name)") }
    }
    let locales = try TemporaryDirectory()
    for (locale, names) in [
      ("sv_SE", ["apple", "zebra", "Zoo", "\u{e4}pple"]), ("de_DE", ["apple", "\u{e4}pple", "zebra", "Zoo"]),
    ] {
      let made = Shell.run(["localedef", "-i", locale, "-f", "UTF-8", locales.path("\(locale).UTF-8")])
      try #require(made.status == 0, "\(made.errorText)")
      let environment = ["LC_ALL": "\(locale).UTF-8", "LOCPATH": locales.root]
      #expect(Displayfs.run(["ls", view.source], with: environment).text == names.joined(separator: "\n"))
    }
  }

  @Test func ls_onTerminal_printsColumnsWithoutControlCharacters() throws {
    let view = try MountedView { root in
      for name in ["one", "two", "three", "four", "f\u{1b}[31m", "\u{6f22}\u{5b57}"] {
        try put("x", at: "\(root)/\(name)")
      }
    }
    let program = """
      import fcntl, os, pty, struct, sys, termios
      pid, terminal = pty.fork()
      if pid == 0:
          fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
          os.environ["LC_ALL"] = "C.UTF-8"
          os.execv(sys.argv[1], [sys.argv[1], "ls", "--color", "never", sys.argv[2]])
      text = b""
      while True:
          try: part = os.read(terminal, 4096)
          except OSError: break
          if not part: break
          text += part
      sys.stdout.write(text.decode().replace("\\r", ""))
      """
    let run = Shell.run(["python3", "-c", program, Displayfs.path, view.source])
    #expect(run.text == "f?[31m  one    two\nfour    three  \u{6f22}\u{5b57}", "\(run.text) \(run.errorText)")
  }

  @Test func ls_human_printsSizesAndDates() throws {
    let view = try MountedView { root in
      try put("x", at: "\(root)/one.txt")
      #expect(truncate("\(root)/one.txt", 1_949_999) == 0)
      try put("", at: "\(root)/empty")
      #expect(mkdir("\(root)/folder", 0o755) == 0)
      for name in ["one.txt", "empty", "folder"] { setTime(86_400, of: "\(root)/\(name)") }
    }
    let run = Displayfs.run(["ls", "-l", "--human", view.source], with: ["TZ": "UTC", "LC_ALL": "C"])
    #expect(
      run.text.split(separator: "\n").map(String.init) == [
        "  0 bytes  1970-01-02 00:00  file       empty",
        "        -  1970-01-02 00:00  directory  folder",
        "   1.9 MB  1970-01-02 00:00  file       one (one.txt)",
      ])
    #expect(Displayfs.run(["ls", "--human", view.source]).errorText.contains("needs -l"))
  }

  @Test func ls_ofNonUTF8Names_printsBytesInJSON() throws {
    let view = try MountedView { root in
      _ = Shell.run("printf x > \"$(printf 'a\\351\\\"\\\\b\\n')\"x", in: root)
    }
    let list = Displayfs.run(["ls", "--json", view.source])
    #expect(
      json(list, "len(d), d[0]['realNameBytes']") == "(1, '61e9225c620a78')" || json(list, "len(d)") == "1")
    #expect(json(list, "bytes.fromhex(d[0]['displayNameBytes'])[:2] == b'a\\xe9'") == "True")
  }

  @Test func queryAttributes_reportNamesKindAndReason() throws {
    let view = try view()
    let cases: [(path: String, answers: [String: String])] = [
      (
        "Programme/Rechner",
        [
          "realname": "Calculator.app", "displayname": "Rechner", "kind": "package",
          "realpath": view.real("Applications/Calculator.app"),
        ]
      ),
      ("Users/anna/Documents/a", ["realname": "a.txt", "displayname": "a", "kind": "file"]),
      ("Users/anna/Documents/a.txt", ["realname": "a.txt", "displayname": "a", "kind": "file"]),
      ("Benutzer", ["realname": "Users", "displayname": "Benutzer", "kind": "directory"]),
      ("", ["kind": "directory", "realpath": view.source]),
    ]
    for (path, answers) in cases {
      for (question, answer) in answers {
        #expect(attribute("user.displayfs.\(question)", of: view.at(path)) == answer, "\(path): \(question)")
      }
      #expect(attribute("user.displayfs.reason", of: view.at(path))?.isEmpty == false)
      #expect(attribute("user.displayfs.nonsense", of: view.at(path)) == nil)
    }
  }

  @Test func ls_ofMountedView_refersToBackingTree() throws {
    let view = try view()
    let outcome = Displayfs.run(["ls", view.at("Users")])
    #expect(outcome.status != 0 && outcome.text.isEmpty)
    #expect(outcome.errorText.contains("list \(view.real("Users")) instead"), "\(outcome.errorText)")
  }

  @Test func queryAttributes_areNeitherListedNorWritable() throws {
    let view = try view()
    let path = view.at("Users/anna/Documents/a")
    #expect(setAttribute("user.displayfs.kind", to: [1], of: view.real("Users/anna/Documents/a.txt")) == nil)
    var list = [CChar](repeating: 0, count: 4096)
    let count = listxattr(path, &list, list.count)
    #expect(
      !String(decoding: list.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self).contains(
        "displayfs"))
    #expect(setAttribute("user.displayfs.realname", to: [1], of: path) != nil)
    #expect(failure { removexattr(path, "user.displayfs.realname") } != nil)
    // A copy of the file with its attributes brings none of them along.
    #expect(
      view.shell("cp --preserve=xattr Users/anna/Documents/a.txt Users/anna/Documents/copy.txt").status == 0)
    #expect(attribute("user.displayfs.realname", of: view.real("Users/anna/Documents/copy.txt")) == nil)
  }

  /// The kernel refuses such attributes of symlinks and special files, and to clients that may not read the file.
  @Test(.asRoot) func query_ofSymlinkOrUnreadableFile_fails() throws {
    let view = try MountedView("allow_other") { root in
      try put("x", at: "\(root)/report.txt")
      chmod("\(root)/report.txt", 0o600)
      symlink("report.txt", "\(root)/link.txt")
    }
    for command in ["realpath", "name", "explain"] {
      let outcome = query(view, command, view.at("link"))
      #expect(outcome.status == 2 && outcome.text == "")
      #expect(outcome.errorText.contains(view.at("link")) && outcome.errorText.contains(view.source))
    }
    let other = Shell.run([
      "setpriv", "--reuid=61001", "--regid=61001", "--clear-groups", Displayfs.path, "explain",
      view.at("report"),
    ])
    #expect(
      other.status == 2 && other.errorText.contains("Permission denied"), "\(other.text)\(other.errorText)")
  }

  @Test func explain_escapesControlCharacters() throws {
    let view = try MountedView { root in
      try put("x", at: "\(root)/note\nkind:         package.txt")
      try put("x", at: "\(root)/escape\u{1b}[31m.txt")
    }
    for name in ["note\nkind:         package", "escape\u{1b}[31m"] {
      for path in [view.at(name), view.real(name + ".txt")] {
        let text = query(view, "explain", path).text
        #expect(text.split(separator: "\n").count == 8 && !text.contains("\u{1b}"), "\(text)")
      }
    }
  }

  @Test func ls_ofMirror_printsRealNames() throws {
    let view = try view()
    let listed = query(
      view, "ls", "-l", "-o", "profile=none", "--source", view.source, view.real("Applications"))
    #expect(
      listed.text.contains("directory\tCalculator.app\tCalculator.app"), "\(listed.text)\(listed.errorText)")
    #expect(!listed.text.contains("Rechner"))
    let inside = query(view, "explain", view.real("Users/anna/Documents/a.txt/x"))
    #expect(inside.status == 2 && inside.errorText.contains("Not a directory"), "\(inside.errorText)")
  }

  @Test func queryAttributes_ofFileWithoutName_failWithENODATA() throws {
    let view = try view()
    let outcome = PythonProgram(
      """
      import errno
      removed = os.open("removed.txt", os.O_CREAT | os.O_RDWR)
      os.unlink("removed")
      for file in [removed, os.open(".", os.O_TMPFILE | os.O_RDWR)]:
        try: print(os.getxattr(file, "user.displayfs.realname"))
        except OSError as error: print(errno.errorcode[error.errno])
      """, in: view.mountPoint
    ).run()
    #expect(outcome.text == "ENODATA\nENODATA", "\(outcome.complaint)")
  }
}
