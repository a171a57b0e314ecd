import Testing

/// Saving a document through its display name, with the editors that people use.
@Suite(.mounting) struct EditorTests {
  static func vim(_ title: String, _ options: String, backup: FileName? = nil) -> ProgramRun {
    let vim = "vim -N -u NONE -i NONE -es -c 'set backupskip= updatecount=1 swapfile \(options)'"
    return ProgramRun("vim, \(title)", "\(vim) -c '%s/old/new/' -c wq \"$FILE\"", backup: backup)
  }

  static let vimRuns = [
    vim("backupcopy=auto", "backupcopy=auto"),
    vim("backupcopy=yes", "backupcopy=yes"),
    vim("backupcopy=no", "backupcopy=no"),
    vim("nowritebackup", "nowritebackup"),
    vim("backup by renaming", "backup backupcopy=no", backup: "report~"),
    ProgramRun(
      "vim, saved twice",
      "vim -N -u NONE -i NONE -es -c 'set bsk=' -c '%s/old/newer/' -c w -c '%s/newer/new/' -c wq \"$FILE\""),
  ]

  @Test(.needing("vim"), arguments: vimRuns)
  func vim_savesAsInPlainDirectory(_ run: ProgramRun) throws { try run.expectNoDifference() }

  /// The name of a backup that is a copy is of vim's own making: there is no extension to keep.
  @Test(.needing("vim"))
  func vim_withBackupByCopying_savesAsInPlainDirectory() throws {
    try Self.vim("backup by copying", "backup backupcopy=yes").expectNoDifference()
  }

  @Test(
    .needing("vim", "nano", "python3"),
    arguments: [
      ProgramRun(
        "vim",
        Terminal.script(
          "vim -N -u NONE -i NONE --cmd 'set bsk=' \"$FILE\"",
          [("old text", ":s/old/new/\r"), ("new", ":wq\r")])),
      ProgramRun("nano", Terminal.script("nano -I \"$FILE\"", nanoKeys)),
      ProgramRun("nano -B", Terminal.script("nano -I -B \"$FILE\"", nanoKeys)),
      ProgramRun("nano -G", Terminal.script("nano -I -G \"$FILE\"", nanoKeys)),
    ])
  func terminalEditors_saveAsInPlainDirectory(_ run: ProgramRun) throws { try run.expectNoDifference() }

  /// Deletes the first word, types another, writes out under the name that is offered, leaves.
  /// The prompt of nano 8 is "Write to File".
  private static let nanoKeys = [
    ("old text", "\u{4}\u{4}\u{4}new\u{f}"), ("Name to Write|Write to File", "\r"),
    ("Wrote 1 line", "\u{18}"),
  ]

  @Test(.needing("python3")) func terminal_ofProgramThatShowsNothing_isClosedAfterAWhile() {
    let outcome = Shell.run(Terminal.script("sleep 1000", [("prompt", "\r")], patience: 1))
    #expect(outcome.status != 0 && outcome.errorText.contains("prompt"), "\(outcome.complaint)")
  }

  static func emacs(_ title: String, _ lisp: String, backup: FileName? = nil) -> ProgramRun {
    let open = "(setq backup-enable-predicate (lambda (_) t)) (find-file (getenv \"FILE\"))"
    let edit =
      "(defun change (from to) (goto-char (point-min)) (search-forward from) (replace-match to) (save-buffer))"
    return ProgramRun(
      "emacs, \(title)", "emacs -Q --batch --eval '(progn \(edit) \(open) \(lisp))'", backup: backup)
  }

  @Test(
    .needing("emacs"),
    arguments: [
      emacs("first save", "(change \"old\" \"new\")", backup: "report~"),
      emacs("later save", "(change \"old\" \"newer\") (change \"newer\" \"new\")", backup: "report~"),
      emacs("without backups", "(setq make-backup-files nil) (change \"old\" \"new\")"),
      emacs(
        "file-precious-flag", "(setq make-backup-files nil file-precious-flag t) (change \"old\" \"new\")"),
      emacs("backup-by-copying", "(setq backup-by-copying t) (change \"old\" \"new\")"),
      emacs("numbered backups", "(setq version-control t) (change \"old\" \"new\")", backup: "report.~1~"),
    ])
  func emacs_savesAsInPlainDirectory(_ run: ProgramRun) throws { try run.expectNoDifference() }

  @Test(
    .needing("sed", "perl"),
    arguments: [
      ProgramRun("sed -i", "sed -i s/old/new/ \"$FILE\""),
      ProgramRun("sed -i~", "sed -i~ s/old/new/ \"$FILE\"", backup: "report~"),
      ProgramRun("sed -i.bak", "sed -i.bak s/old/new/ \"$FILE\"", backup: "report.bak"),
      ProgramRun("perl -i", "perl -pi -e s/old/new/ \"$FILE\""),
      ProgramRun("perl -i~", "perl -pi~ -e s/old/new/ \"$FILE\"", backup: "report~"),
      ProgramRun("perl -i.bak", "perl -pi.bak -e s/old/new/ \"$FILE\"", backup: "report.bak"),
      ProgramRun("sort -o", "cp \"$WORK/$FILE\" .new; sort -o \"$FILE\" .new; rm .new"),
    ])
  func streamEditors_saveAsInPlainDirectory(_ run: ProgramRun) throws { try run.expectNoDifference() }
}

/// Programs that want a terminal.
enum Terminal {
  /// A script that runs a command in a terminal and types: each text when the screen has shown what precedes it.
  ///
  /// - Parameters:
  ///   - exchanges: what the screen shows, as a regular expression, and what is typed then.
  ///   - patience: how long the screen may stay as it is, in seconds. Then the command is killed, and the script fails.
  static func script(
    _ command: String, _ exchanges: [(shown: String, typed: String)], patience: Int = 60
  ) -> String {
    let words = exchanges.flatMap { [$0.shown, $0.typed] }.map { "'\($0)'" }.joined(separator: " ")
    return "python3 -c '\(driver)' \(patience) \(words) -- \(command)"
  }

  private static let driver = """
    import fcntl, os, pty, re, select, signal, struct, sys, termios
    patience, words = int(sys.argv[1]), sys.argv[2:]
    split = words.index("--")
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.execvp(words[split + 1], words[split + 1:])
    def read(expected):
        if select.select([terminal], [], [], patience)[0]:
            return os.read(terminal, 4096)
        os.kill(child, signal.SIGKILL)
        sys.exit("the screen does not show: " + expected)
    for shown, typed in zip(words[0:split:2], words[1:split:2]):
        seen = b""
        while not re.search(shown.encode(), seen):
            seen += read(shown)
        os.write(terminal, typed.encode())
    try:
        while read("the end"):
            pass
    except OSError:
        pass
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
}
