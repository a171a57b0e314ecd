import Testing

/// Programs that are given a composed name, as it is typed on Linux, of a document whose real name is decomposed. The real name is
/// kept to the byte.
@Suite(.mounting) struct ComposedNameProgramTests {
  private static let runs = [
    ProgramRun("cp", "cp \"$WORK/$FILE\" ."),
    ProgramRun("cp --remove-destination", "cp --remove-destination \"$WORK/$FILE\" ."),
    ProgramRun("mv", "cp -p \"$WORK/$FILE\" .new; mv .new \"$FILE\""),
    ProgramRun("sed -i", "sed -i s/old/new/ \"$FILE\""),
    ProgramRun("rsync -a", "rsync -a \"$WORK/$FILE\" ."),
    ProgramRun("rsync -a --inplace", "rsync -a --inplace \"$WORK/$FILE\" ."),
    EditorTests.vim("backupcopy=auto", "backupcopy=auto"),
    EditorTests.vim("a new file renamed over the old", "backupcopy=no"),
    EditorTests.vim("the old file rewritten", "backupcopy=yes"),
    EditorTests.emacs("without backups", "(setq make-backup-files nil) (change \"old\" \"new\")"),
  ]

  @Test(.needing("vim", "emacs", "rsync"), arguments: runs, [false, true])
  func program_keepsDecomposedRealName(_ run: ProgramRun, byRealName: Bool) throws {
    try run.expectNoDifferenceByComposedName(byRealName: byRealName)
  }

  @Test func moveAwayAndBack_keepsDecomposedRealName() throws {
    let run = ProgramRun(
      "mv", "mkdir Sub; mv \"$FILE\" Sub; cat \"$WORK/$FILE\" >\"Sub/$FILE\"; mv Sub/* .; rmdir Sub")
    try run.expectNoDifferenceByComposedName(byRealName: false)
  }

  private static let resume = "Re\u{301}sume\u{301}.txt"

  /// The whole directory there and back: nothing is deleted, and nothing is made twice.
  @Test(.needing("rsync")) func rsyncDelete_thereAndBack_keepsDecomposedRealName() throws {
    let view = try MountedView { root in try put("old", at: "\(root)/\(Self.resume)") }
    let mirror = try TemporaryDirectory()
    let there = Shell.run("rsync -a '\(view.mountPoint)/' '\(mirror.root)'")
    #expect(there.status == 0, "\(there.complaint)")
    #expect(names(mirror.root) == ["R\u{e9}sum\u{e9}"])
    try put("new", at: mirror.path("R\u{e9}sum\u{e9}"))
    let back = Shell.run("rsync -a --checksum --delete '\(mirror.root)/' '\(view.mountPoint)'")
    #expect(back.status == 0, "\(back.complaint)")
    #expect(view.realListing() == [FileName(Self.resume)])
    #expect(text(view.real(Self.resume)) == "new")
  }

  /// git records the name that it is given, and asks whether the file system composes names (core.precomposeunicode).
  @Test(.needing("git"), arguments: ["true", "false"])
  func git_findsNoChangeInDecomposedName(precompose: String) throws {
    let view = try MountedView { root in try put("old", at: "\(root)/\(Self.resume)") }
    let outcome = view.shell(
      """
      set -e
      export HOME="$PWD/.." GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=Anna \\
        GIT_AUTHOR_EMAIL=anna@example.org GIT_COMMITTER_NAME=Anna GIT_COMMITTER_EMAIL=anna@example.org
      git init -q -b main .; git config core.precomposeunicode \(precompose)
      git add -A; git commit -qm old
      test "$(git -c core.quotePath=false ls-files)" = "$(printf 'R\\303\\251sum\\303\\251')"
      echo new >"$(printf 'R\\303\\251sum\\303\\251')"; git commit -qam new
      git checkout -q HEAD^; git checkout -q main; git stash -q || true
      test -z "$(git status --porcelain)"; git fsck --strict --full
      """)
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(view.realListing() == [".git", FileName(Self.resume)])
    #expect(text(view.real(Self.resume)) == "new\n")
  }

  /// An archive as bsdtar makes it on a Mac, whose members have decomposed names. Where the locale has UTF-8, bsdtar composes
  /// those of a pax archive itself.
  @Test(.needing("bsdtar")) func archiveOfMac_opensByTypedNames() throws {
    let view = try MountedView { root in
      let outcome = Shell.run(
        """
        set -e; mkdir -p "$WORK/$FOLDER"; echo text >"$WORK/$FOLDER/$NAME"
        bsdtar -cf "$WORK/archive.tar" -C "$WORK" "$FOLDER"; bsdtar -xf "$WORK/archive.tar" -C '\(root)'
        """,
        with: ["LC_ALL": "C", "WORK": "\(root)/../made", "FOLDER": "E\u{301}te\u{301}", "NAME": Self.resume])
      #expect(outcome.status == 0, "\(outcome.complaint)")
    }
    #expect(names(view.source) == ["E\u{301}te\u{301}"])
    #expect(view.listing() == ["\u{c9}t\u{e9}"])
    #expect(text(view.at("\u{c9}t\u{e9}/R\u{e9}sum\u{e9}")) == "text\n")
    #expect(text(view.at("\u{c9}t\u{e9}/R\u{e9}sum\u{e9}.txt")) == "text\n")
    #expect(text(view.at("E\u{301}te\u{301}/\(Self.resume)")) == "text\n")
  }
}
