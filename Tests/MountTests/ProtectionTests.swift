import Glibc
import SystemPackage
import Testing

/// What the domains of the file system and read-only rules keep from being changed.
@Suite(.mounting) struct ProtectionTests {
  /// Every way of changing what a path leads to, or of adding to the directory around it.
  private static let changes = [
    "echo x >>F", ": >F", "chmod 600 F", "touch F", "rm F", "mv F G", "ln F G", "ln -s x G", "mkdir G",
    "mkfifo G", ": >G",
    "truncate -s 1 F", "setfattr -n user.tag -v x F", "cp F G", "mv \"$OTHER\" F",
  ]

  /// The changes of the file `file` in the directory that succeed. Shell functions stand in for F and G.
  private func succeeding(_ view: MountedView, in directory: String, file: String) -> [String] {
    Self.changes.filter { change in
      let script = change.replacingAll("F", with: "'\(file)'").replacingAll("G", with: "new")
      let outcome = view.shell(
        "OTHER=\"$VIEW/other.$$\"; : >\"$OTHER\"; cd '\(directory)' || exit 1; (\(script)) 2>\"$VIEW/err.$$\"; r=$?; rm -f \"$OTHER\" \"$VIEW/err.$$\"; exit $r"
      )
      return outcome.status == 0
    }
  }

  private func volume(_ options: String = "profile=macos") throws -> MountedView {
    try MountedView(options) { root in
      try put("x", at: "\(root)/System/Library/file")
      try TestTree.application("\(root)/Applications/Editor.app", named: "Editor")
      try put("x", at: "\(root)/Applications/Editor.app/Contents/Resources/file")
      try put("x", at: "\(root)/Library/file")
    }
  }

  @Test func systemAndApplications_cannotBeChanged() throws {
    let view = try volume()
    for directory in ["System/Library", "System", "Applications/Editor.app/Contents/Resources"] {
      let file = directory == "System" ? "Library" : "file"
      #expect(succeeding(view, in: directory, file: file) == [], "\(directory)")
    }
    #expect(text(view.real("System/Library/file")) == "x")
    #expect(text(view.real("Applications/Editor.app/Contents/Resources/file")) == "x")
    #expect(failure { rename(view.at("System"), view.at("Old")) } == .notPermitted)
    #expect(failure { unlink(view.at("System/Library/file")) } == .notPermitted)
    // Administrators change what is in the local domain.
    #expect(succeeding(view, in: "Library", file: "file").count > 5)
  }

  @Test func application_canBeRenamedAndRemovedWhole() throws {
    let view = try volume()
    #expect(view.shell("mv Applications/Editor Applications/Writer && rm Applications/Writer").status == 0)
    #expect(view.realListing("Applications") == [])
  }

  @Test func application_canBeInstalledThroughView() throws {
    let view = try volume()
    let script = """
      mkdir -p Work/New.app/Contents/MacOS && cp "$SOURCE/Applications/Editor.app/Contents/Info.plist" Work/New.app/Contents/
      echo more > Work/New.app/Contents/MacOS/New && cp -r "$SOURCE/Applications/Editor.app" Work/Copy.app
      """
    let outcome = view.shell(script)
    #expect(outcome.status == 0, "\(outcome.errorText)")
    #expect(text(view.real("Work/New.app/Contents/MacOS/New")) == "more\n")
    #expect(isThere(view.real("Work/Copy.app/Contents/Resources/file")))
    view.unmount()
    try view.mount("profile=macos")
    #expect(view.shell("echo x >> Work/New.app/Contents/MacOS/New").status != 0)
  }

  @Test func domainsIgnore_allowsChanges() throws {
    let view = try volume("profile=macos,domains=ignore")
    #expect(
      view.shell("echo y >> System/Library/file && rm Applications/Editor.app/Contents/Info.plist").status
        == 0)
  }

  @Test func inbox_allowsReadingAndRemovingOnly() throws {
    let view = try MountedView("profile=ios") { root in
      for path in ["Documents/Inbox/mail.txt", "Documents/a.txt", "Library/x", "tmp/x"] {
        try put("x", at: "\(root)/\(path)")
      }
      try TestTree.application("\(root)/My.app", named: "My")
    }
    #expect(view.listing() == ["Documents", "My"])
    let inbox = view.at("Documents/Inbox")
    #expect(view.shell("cat Documents/Inbox/mail").text == "x")
    #expect(failure { open("\(inbox)/mail", O_WRONLY) } == .notPermitted)
    #expect(failure { open("\(inbox)/new", O_WRONLY | O_CREAT, 0o644) } == .notPermitted)
    #expect(failure { truncate("\(inbox)/mail", 0) } == .notPermitted)
    #expect(failure { rename(view.at("Documents/a"), "\(inbox)/a") } == .notPermitted)
    #expect(view.shell("mv Documents/Inbox/mail Documents/kept && echo x >> Documents/kept").status == 0)
    #expect(view.shell("echo x >> My.app/Contents/Info.plist").status != 0)
    #expect(view.shell("rm Documents/kept").status == 0)
  }

  @Test func readOnlyRule_appliesToSubtree() throws {
    let view = try MountedView("config=none") { root in
      for path in ["Archive/deep/file", "Archive/deep/open/file", "notes.txt"] {
        try put("x", at: "\(root)/\(path)")
      }
      try put(
        """
        [[rule]]
        match = ["/Archive/", "notes.txt"]
        read-only = true
        [[rule]]
        match = "/Archive/deep/open/"
        read-only = false
        """, at: "\(root)/.rules.toml")
    }
    view.unmount()
    try view.mount("config=\(view.real(".rules.toml"))")
    #expect(succeeding(view, in: "Archive/deep", file: "file") == [])
    #expect(view.shell("echo x >> notes").status != 0)
    #expect(view.shell("echo y > Archive/deep/open/new && rm Archive/deep/open/file").status == 0)
    #expect(view.shell("rmdir Archive/deep/open").status != 0)
    #expect(view.shell("rm -r Archive").status != 0)
    #expect(text(view.real("Archive/deep/file")) == "x")
    #expect(Displayfs.run(["explain", view.at("notes")]).text.contains("It is read-only by the rule in"))
  }

  @Test(.asRoot) func homeOfAnotherUser_listsAccessibleEntriesOnly() throws {
    let (anna, bert): (uid_t, uid_t) = (61001, 61002)
    let view = try MountedView("profile=macos,allow_other") { root in
      for name in ["Documents", "Desktop", "Public", "Shared by me"] {
        try put("x", at: "\(root)/Users/anna/\(name)/file")
        chmod("\(root)/Users/anna/\(name)", name.hasPrefix("D") ? 0o700 : 0o755)
        chown("\(root)/Users/anna/\(name)", anna, anna)
      }
      try put("x", at: "\(root)/Users/anna/secret")
      chmod("\(root)/Users/anna/secret", 0o600)
      chown("\(root)/Users/anna", anna, anna)
    }
    func list(as user: uid_t) -> Set<FileName> {
      Shell.run([
        "setpriv", "--reuid=\(user)", "--regid=\(user)", "--clear-groups", "ls", view.at("Users/anna"),
      ]).names
    }
    #expect(list(as: bert) == ["Public", "Shared by me"])
    #expect(list(as: anna) == ["Documents", "Desktop", "Public", "Shared by me", "secret"])
    #expect(view.listing("Users/anna") == ["Documents", "Desktop", "Public", "Shared by me", "secret"])
    view.unmount()
    try view.mount("profile=macos,allow_other,domains=ignore")
    #expect(list(as: bert).contains("Documents"))
  }
}

extension String {
  fileprivate func replacingAll(_ letter: Character, with text: String) -> String {
    reduce(into: "") { $0 += $1 == letter ? text : String($1) }
  }
}
