import Glibc
import Testing

/// Subvolumes of Btrfs, which gives the device number of a deleted one to the next.
@Suite(.mounting, .asRoot, .numberedSubvolumes) struct SubvolumeTests {
  /// A view of a file system with the subvolume `home`.
  private func view() throws -> MountedView {
    try MountedView { root in
      let made = Shell.run(
        """
        truncate -s 256M '\(root).image' && mkfs.btrfs -q '\(root).image' && mount -o loop '\(root).image' '\(root)' &&
        btrfs subvolume create '\(root)/home' && mkdir '\(root)/home/Letter.rtfd' && mkdir '\(root)/snapshots'
        """)
      try #require(made.status == 0, "\(made.complaint)")
      try put("old", at: "\(root)/home/notes.txt")
      try put("text", at: "\(root)/home/Letter.rtfd/TXT.rtf")
    }
  }

  private func snapshot(_ view: MountedView, _ name: String) throws {
    let made = Shell.run("btrfs subvolume snapshot '\(view.real("home"))' '\(view.real(name))'")
    try #require(made.status == 0, "\(made.complaint)")
  }

  private func delete(_ view: MountedView, _ name: String) throws {
    let outcome = Shell.run("btrfs subvolume delete '\(view.real(name))'")
    try #require(outcome.status == 0, "\(outcome.complaint)")
  }

  @Test func replacedSnapshot_isNotTheOneThatAProgramHasOpen() throws {
    let view = try view()
    try snapshot(view, "daily")
    let open = try OpenFile(view.at("daily/notes"))
    try delete(view, "daily")
    try put("new", at: view.real("home/notes.txt"))
    try snapshot(view, "daily")
    #expect(eventually { text(view.at("daily/notes")) == "new" })
    #expect(Shell.run("printf er >>'\(view.at("daily/notes"))'").status == 0)
    #expect(text(view.real("daily/notes.txt")) == "newer")
    #expect(open.bytes(3, at: 0) == Array("old".utf8))
  }

  @Test(arguments: ["", "snapshots/"]) func snapshotWithDeviceNumberOfDeletedOne_isReachable(place: String)
    throws
  {
    let view = try view()
    if !place.isEmpty {
      let snapshots = view.real("snapshots")
      let made = Shell.run("rmdir '\(snapshots)' && btrfs subvolume create '\(snapshots)'")
      try #require(made.status == 0, "\(made.complaint)")
    }
    let second = try #require(try replacement(in: view, at: place))
    #expect(eventually { view.listing(second) == ["Letter", "notes"] })
    #expect(text(view.at("\(second)/notes")) == "old")
    try put("made", at: view.at("\(second)/made.txt"))
    #expect(text(view.real("\(second)/made.txt")) == "made")
    #expect(text(view.at("\(second)/Letter.rtfd/TXT.rtf")) == "text")
  }

  /// The roots of all subvolumes have the inode number 256, and a listing has others for them.
  @Test func subvolumesMovedAtOnce_areReportedAsRenamedEachToItsOwnName() throws {
    let view = try view()
    let days = ["monday", "tuesday", "wednesday", "thursday"]
    for day in days.prefix(2) { try snapshot(view, "snapshots/\(day)") }
    #expect(view.listing("snapshots") == ["monday", "tuesday"])
    let watcher = try InotifyWatcher(view.at("snapshots"))
    for day in days.suffix(2) { try snapshot(view, "snapshots/\(day)") }
    try #require(watcher.reportsChanges("create wednesday", "create thursday"))
    for day in days {
      #expect(rename(view.real("snapshots/\(day)"), view.real("snapshots/last \(day)")) == 0)
    }
    for day in days {
      #expect(watcher.reportsChanges("from \(day)", "to last \(day)"))
      #expect(watcher.isOneRename(day, "last \(day)"))
    }
    #expect(view.listing("snapshots") == Set(days.map { FileName("last \($0)") }))
  }

  /// A snapshot that has the device number of one that was deleted after a program had looked at it. What other tests mount at the
  /// same time may get that number.
  private func replacement(in view: MountedView, at place: String) throws -> String? {
    for attempt in 0..<20 {
      let (first, second) = ("\(place)first\(attempt)", "\(place)second\(attempt)")
      try snapshot(view, first)
      let device = try #require(status(view.real(first))).st_dev
      #expect(text(view.at("\(first)/notes")) == "old")
      try delete(view, first)
      try snapshot(view, second)
      if status(view.real(second))?.st_dev == device { return second }
    }
    return nil
  }
}
