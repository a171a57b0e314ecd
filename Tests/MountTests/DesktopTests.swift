import Glibc
import Testing

/// What desktops do with a document through its display name: GIO, on which the file managers of GNOME, Xfce, MATE and
/// Cinnamon are built, and LibreOffice.
@Suite(.mounting) struct DesktopTests {
  private static let session = "GVFS_DISABLE_FUSE=1 dbus-run-session -- "

  @Test(
    .needing("gio", "dbus-run-session"),
    arguments: [
      ProgramRun("gio save", "\(session)gio save \"$FILE\" <\"$WORK/$FILE\""),
      ProgramRun(
        "gio save --backup", "\(session)gio save --backup \"$FILE\" <\"$WORK/$FILE\"", backup: "report~"),
      ProgramRun("gio save --unlink", "\(session)gio save --unlink \"$FILE\" <\"$WORK/$FILE\""),
      ProgramRun("gio copy", "\(session)gio copy \"$WORK/$FILE\" \"$FILE\""),
      ProgramRun(
        "gio copy --backup", "\(session)gio copy --backup \"$WORK/$FILE\" \"$FILE\"", backup: "report~"),
      ProgramRun("gio move", "\(session)gio move \"$WORK/$FILE\" \"$FILE\""),
      ProgramRun(
        "gio rename and back",
        "\(session)sh -ec 'gio rename \"$FILE\" trip; gio rename trip \"$FILE\"' >/dev/null; cat \"$WORK/$FILE\" >\"$FILE\""
      ),
    ])
  func gio_savesAndCopiesAsInPlainDirectory(_ run: ProgramRun) throws { try run.expectNoDifference() }

  // MARK: Rename and trash, as an ordinary user

  private static let user: uid_t = geteuid() == 0 ? 65534 : geteuid()

  /// A view of a directory that belongs to the user of the programs.
  private func view() throws -> MountedView {
    try MountedView(geteuid() == 0 ? "allow_other" : "") { root in
      try put("letter", at: "\(root)/report.txt")
      try put("sea", at: "\(root)/Pictures/sea.png")
      try put("sea", at: "\(root)/Sub/sea.jpg")
      makeDirectory("\(root)/.home")
      guard geteuid() == 0 else { return }
      for path in ["", "report.txt", "Pictures", "Pictures/sea.png", "Sub", "Sub/sea.jpg", ".home"] {
        chown("\(root)/\(path)", Self.user, Self.user)
      }
    }
  }

  /// Runs a script in a desktop session of its own.
  private func run(_ view: MountedView, _ script: String) -> Outcome {
    let change =
      geteuid() == 0 ? ["setpriv", "--reuid=\(Self.user)", "--regid=\(Self.user)", "--clear-groups"] : []
    let home = view.real(".home")
    return Shell.run(
      change + [
        "dbus-run-session", "--", "/bin/sh", "-ec",
        "cd '\(view.mountPoint)'\n\(Self.trashFunctions)\n\(script)",
      ],
      with: [
        "HOME": home, "XDG_DATA_HOME": home, "XDG_RUNTIME_DIR": home, "GVFS_DISABLE_FUSE": "1",
        "VIEW": view.mountPoint,
      ])
  }

  /// The trash is one for all that is mounted, other views and the tester's own disks too: these functions see and touch
  /// only what was trashed in this view. A daemon keeps its listing, and hears of changes a moment later.
  private static let trashFunctions = """
    list_trash() { gio trash --list | grep -F "$(basename "$(dirname "$VIEW")")" || true; }
    wait_for_trash() {
      for attempt in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ "$(list_trash | wc -l)" -ne "$1" ] || return 0
        sleep 0.1
      done
      list_trash >&2
      return 1
    }
    restore() { gio trash --restore "$(list_trash | grep -F "$VIEW/$1" | cut -f1)"; }
    """

  @Test(.needing("gio", "dbus-run-session")) func gioRename_keepsExtension() throws {
    let view = try view()
    let outcome = run(view, "gio rename report letter; cd Pictures; gio rename sea 'v1.2'")
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(view.realListing().contains("letter.txt"))
    #expect(view.realListing("Pictures") == ["v1.2.png"])
    #expect(text(view.real("letter.txt")) == "letter")
  }

  @Test(.needing("gio", "dbus-run-session")) func gioRename_toTakenName_fails() throws {
    let view = try view()
    for taken in ["Sub", "Pictures", "report", "report.txt"] {
      #expect(
        run(view, "cd Pictures; cp sea ../photo; cd ..; gio rename photo \(taken)").status != 0, "\(taken)")
      #expect(text(view.real("report.txt")) == "letter")
    }
  }

  @Test(.needing("gio", "dbus-run-session")) func gioTrash_keepsAndRestoresExtension() throws {
    let view = try view()
    let before = view.realListing()
    let trashed = run(view, "gio trash report")
    #expect(trashed.status == 0, "\(trashed.complaint)")
    let trash = ".Trash-\(Self.user)"
    #expect(view.realListing("\(trash)/files") == ["report.txt"])
    #expect(view.realListing("\(trash)/info") == ["report.trashinfo"])
    #expect(status(view.real(trash))?.permissions == 0o700)
    #expect(!view.listing().contains("report"))
    let restored = run(view, "wait_for_trash 1; restore report; wait_for_trash 0")
    #expect(restored.status == 0, "\(restored.complaint)")
    #expect(view.realListing().difference(from: before.union([FileName(trash)])) == nil)
    #expect(view.realListing("\(trash)/files") == [])
    #expect(view.realListing("\(trash)/info") == [])
    #expect(text(view.real("report.txt")) == "letter")
  }

  @Test(.needing("gio", "dbus-run-session")) func filesWithSameDisplayName_areTrashedAndRestored() throws {
    let view = try view()
    let trashed = run(view, "gio trash Pictures/sea Sub/sea; wait_for_trash 2")
    #expect(trashed.status == 0, "\(trashed.complaint)")
    #expect(view.realListing(".Trash-\(Self.user)/files").count == 2)
    let restored = run(view, "wait_for_trash 2; restore Pictures/sea; restore Sub/sea; wait_for_trash 0")
    #expect(restored.status == 0, "\(restored.complaint)")
    #expect(view.realListing("Pictures") == ["sea.png"])
    #expect(view.realListing("Sub") == ["sea.jpg"])
  }

  @Test(.needing("gio", "dbus-run-session")) func fileTrashedByRealName_isRestored() throws {
    let view = try view()
    let trashed = run(view, "gio trash report.txt; wait_for_trash 1")
    #expect(trashed.status == 0, "\(trashed.complaint)")
    #expect(text(view.real(".Trash-\(Self.user)/files/report.txt")) == "letter")
    let restored = run(view, "wait_for_trash 1; restore report.txt; wait_for_trash 0")
    #expect(restored.status == 0, "\(restored.complaint)")
    #expect(text(view.real("report.txt")) == "letter")
  }

  @Test(.needing("gio", "dbus-run-session")) func filesRemovedFromTrash_areGone() throws {
    let view = try view()
    let outcome = run(
      view,
      """
      gio trash report Pictures
      wait_for_trash 2
      list_trash | cut -f1 | while read -r item; do gio remove "$item"; done
      wait_for_trash 0
      """)
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(view.realListing(".Trash-\(Self.user)/files") == [])
    #expect(view.realListing(".Trash-\(Self.user)/info") == [])
  }

  // MARK: LibreOffice

  /// By a name as it is on the disk, and by a composed name of a document whose real name is decomposed.
  @Test(.needing("soffice"), arguments: [("letter", "letter"), ("R\u{e9}sum\u{e9}", "Re\u{301}sume\u{301}")])
  func libreOffice_convertsAndSavesInPlace(shown: String, real: String) throws {
    let real = real + ".rtf"
    let view = try MountedView { root in
      try put("{\\rtf1\\ansi old text}", at: "\(root)/\(real)")
      chmod("\(root)/\(real)", 0o640)
    }
    let office = try Office()
    let converted = office.run("--convert-to", "rtf", "--outdir", view.mountPoint, view.at(shown))
    #expect(converted.status == 0, "\(converted.complaint)")
    #expect(text(view.real(real))?.contains("LibreOffice") == true)
    let saved = office.run(Office.change(view.at(shown)))
    #expect(saved.status == 0, "\(saved.complaint)")
    #expect(text(view.real(real))?.contains("new text") == true)
    #expect(view.realListing() == [FileName(real)])
    #expect(view.listing() == [FileName(shown)])
    #expect(status(view.real(real))?.permissions == 0o640)
  }

  @Test(.needing("soffice")) func libreOffice_savesAsInPlainDirectory() throws {
    try Office().expectNoDifferenceOfSaving()
  }
}
