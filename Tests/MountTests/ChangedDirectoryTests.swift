import BackingTree
import CLinux
import Glibc
import Testing

/// Directories that stay where they are in the backing tree and are listed as something else, or not at all. Programs that watch
/// learn of it, and programs that work there do not notice.
@Suite(.mounting, .asRoot) struct ChangedDirectoryTests {
  struct Change: Sendable, CustomTestStringConvertible {
    let place: String
    /// In the directory that holds it, the names that are listed before and after.
    let before, after: FileName
    let change, back: String

    var testDescription: String { "\(before) -> \(after), \(place)" }
  }

  private static let plist = "<plist version='1.0'><dict/></plist>"
  static let changes = [
    Change(
      place: "Tool.app", before: "Tool.app", after: "Tool",
      change: "echo \"\(plist)\" >Tool.app/Contents/Info.plist",
      back: "rm Tool.app/Contents/Info.plist"),
    Change(place: "Folder", before: "Folder", after: "", change: "echo Folder >.hidden", back: "rm .hidden"),
    Change(
      place: "Folder", before: "Folder", after: "", change: "mv unused/list .hidden && touch .hidden",
      back: "mv .hidden unused/list"),
  ]

  @Test(arguments: changes) func directoryListedAsSomethingElse_isReported(change: Change) throws {
    let view = try MountedView { root in
      makeDirectory("\(root)/in/\(change.place)/Contents")
      makeDirectory("\(root)/in/unused")
      try put("\(change.place)\n", at: "\(root)/in/unused/list")
      try put("text", at: "\(root)/in/\(change.place)/notes.txt")
    }
    let place = view.at("in/\(change.place)")
    #expect(view.listing("in").contains(change.before))
    let held = try OpenFile(place, dfs_O_PATH | O_DIRECTORY)
    #expect(mount("none", "\(place)/Contents", "tmpfs", 0, nil) == 0)
    defer { umount2("\(place)/Contents", CInt(MNT_DETACH)) }
    try put("mounted", at: "\(place)/Contents/inside")
    let watcher = try InotifyWatcher(view.at("in"))
    func isReported(_ command: String, _ old: FileName, _ new: FileName) -> Bool {
      watcher.reset()
      #expect(Shell.run("cd '\(view.real("in"))' && \(command)").status == 0)
      let expected = [old.bytes.isEmpty ? nil : "delete \(old)", new.bytes.isEmpty ? nil : "create \(new)"]
      // Before Linux 6.14, nothing of it can be reported without a risk for the mount.
      return expected.compactMap(\.self).allSatisfy {
        !Machine.looksUpStableNames || watcher.reportsChanges($0)
      }
    }
    for _ in 0..<5 {
      #expect(isReported(change.change, change.before, change.after), "\(watcher.reportedEvents)")
      #expect(isReported(change.back, change.after, change.before), "\(watcher.reportedEvents)")
    }
    #expect(faccessat(held.descriptor, "notes.txt", R_OK, 0) == 0)
    #expect(text("\(place)/Contents/inside") == "mounted")
    let working = Shell.run("cd '\(place)' && pwd -P && cd Contents && cat inside")
    #expect(working.status == 0)
  }

  /// The look-ups of the client may come at any moment of a change.
  @Test func mountInDirectory_whileAClientLooksThereAllTheTime_stays() throws {
    let view = try MountedView { root in
      makeDirectory("\(root)/Folder/Contents")
      try put("text", at: "\(root)/Folder/notes.txt")
    }
    let place = view.at("Folder/Contents")
    #expect(mount("none", place, "tmpfs", 0, nil) == 0)
    defer { umount2(place, CInt(MNT_DETACH)) }
    try put("mounted", at: "\(place)/inside")
    let isDone = Guarded(false)
    let looked = view.at("Folder/notes.txt")
    let client = BackingTree.Thread {
      while !isDone.withLock({ $0 }) { _ = isThere(looked) }
    }
    defer {
      isDone.withLock { $0 = true }
      client?.join()
    }
    for _ in 0..<40 {
      try put("Folder\n", at: view.real(".hidden"))
      #expect(eventually { view.listing().isEmpty })
      usleep(20_000)
      try #require(text("\(place)/inside") == "mounted")
      #expect(unlink(view.real(".hidden")) == 0)
      #expect(eventually { view.listing() == ["Folder"] })
      usleep(20_000)
      try #require(text("\(place)/inside") == "mounted")
    }
  }
}
