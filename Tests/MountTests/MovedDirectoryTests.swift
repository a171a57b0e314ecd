import BackingTree
import CLinux
import Glibc
import SystemPackage
import Testing

/// Directories that another process moves in the backing tree, where the view cannot report the move as one.
@Suite(.mounting) struct MovedDirectoryTests {
  /// A program that works in the directory must not be left in one that the kernel takes for removed.
  @Test(arguments: ["other/job", ".job", "job.rtfd", "Letter.rtfd/job"])
  func programInDirectory_worksOnWhereverItIsMoved(destination: String) throws {
    let view = try MountedView { root in
      try put("x", at: "\(root)/job/notes.txt")
      makeDirectory("\(root)/other")
      makeDirectory("\(root)/Letter.rtfd")
    }
    #expect(view.listing() == ["job", "other", "Letter"] && view.listing("job") == ["notes"])
    let held = try OpenFile(view.at("job"), dfs_O_PATH | O_DIRECTORY)
    let watcher = try InotifyWatcher(view.mountPoint)
    #expect(rename(view.real("job"), view.real(destination)) == 0)
    #expect(watcher.reportsChanges("delete job"))
    #expect(faccessat(held.descriptor, "notes.txt", R_OK, 0) == 0)
    #expect(mkdirat(held.descriptor, "made", 0o755) == 0)
    #expect(view.realListing(destination) == ["notes.txt", "made"])
  }

  /// The content of a package is not named as outside.
  @Test func directoryMovedOutOfPackage_isShownByItsNewPlace() throws {
    let view = try MountedView { root in
      for package in ["Trip.rtfd", "Old.rtfd"] {
        makeDirectory("\(root)/\(package)/inside/deep/Picture.rtfd")
        try put("x", at: "\(root)/\(package)/inside/deep/notes.txt")
      }
    }
    #expect(view.listing() == ["Trip", "Old"])
    for package in ["Trip.rtfd", "Old.rtfd"] {
      #expect(view.listing("\(package)/inside") == ["deep"])
      #expect(view.listing("\(package)/inside/deep") == ["Picture.rtfd", "notes.txt"])
    }
    #expect(rename(view.real("Trip.rtfd/inside"), view.real("moved")) == 0)
    #expect(rename(view.real("Old.rtfd"), view.real("Old")) == 0)
    #expect(eventually { view.listing("moved/deep") == ["Picture", "notes"] })
    #expect(eventually { view.listing("Old/inside/deep") == ["Picture", "notes"] })
    #expect(text(view.at("moved/deep/notes")) == "x")
    #expect(rename(view.real("moved"), view.real("Trip.rtfd/again")) == 0)
    #expect(eventually { view.listing("Trip.rtfd/again/deep") == ["Picture.rtfd", "notes.txt"] })
  }

  /// The entry of the directory in the kernel's cache follows to the real name that leads there now.
  @Test(arguments: [("d", ".d"), ("a.x", "a.rtfd"), ("a.rtfd", "b.rtfd"), ("a.rtfd", "x")])
  func programInDirectoryThatNobodyListed_findsItWhateverItIsRenamedTo(old: String, new: String) throws {
    let view = try MountedView { root in try put("x", at: "\(root)/\(old)/sub/notes.csv") }
    _ = view.listing()
    let held = try OpenFile(view.at("\(old)/sub"), dfs_O_PATH | O_DIRECTORY)
    #expect(rename(view.real(old), view.real(new)) == 0)
    let path = view.at("\(new)/sub")
    #expect(
      eventually { (try? FilePath("/proc/self/fd/\(held.descriptor)").resolvingSymlinks().string) == path })
    #expect(mkdirat(held.descriptor, "made", 0o755) == 0)
    #expect(view.realListing("\(new)/sub") == ["notes.csv", "made"])
  }
}
