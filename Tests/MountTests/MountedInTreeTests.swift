import CLinux
import Glibc
import Testing

/// File systems that are mounted in the backing tree while a view shows it.
@Suite(.mounting, .asRoot) struct MountedInTreeTests {
  private func mounted(at place: String, with names: String...) throws {
    try #require(mount("none", place, "tmpfs", 0, nil) == 0)
    for name in names { try put("on the stick", at: "\(place)/\(name)") }
  }

  @Test(arguments: ["Stick", "Disks/Stick"]) func mountedFileSystem_isShownAtOnceAndNoLongerThanItIsMounted(
    place: String
  )
    throws
  {
    let view = try MountedView { root in
      makeDirectory("\(root)/\(place)")
      try put("beneath", at: "\(root)/\(place)/old.txt")
    }
    #expect(view.listing(place) == ["old"])
    #expect(text(view.at("\(place)/old")) == "beneath")
    let held = try OpenFile(view.at(place), dfs_O_PATH | O_DIRECTORY)
    try mounted(at: view.real(place), with: "new.txt")
    defer { umount2(view.real(place), CInt(MNT_DETACH)) }
    #expect(eventually { view.listing(place) == ["new"] })
    #expect(text(view.at("\(place)/new")) == "on the stick" && !isThere(view.at("\(place)/old")))
    // A program that works beneath the mount goes on there, as it does in the tree.
    #expect(faccessat(held.descriptor, "old.txt", R_OK, 0) == 0)
    try put("made", at: view.at("\(place)/made.txt"))
    #expect(text(view.real("\(place)/made.txt")) == "made")
    #expect(umount2(view.real(place), CInt(MNT_DETACH)) == 0)
    #expect(eventually { view.listing(place) == ["old"] })
    #expect(text(view.at("\(place)/old")) == "beneath" && !isThere(view.at("\(place)/new")))
  }

  @Test func fileSystemMountedInsteadOfAnother_isShown() throws {
    let view = try MountedView { makeDirectory("\($0)/Stick") }
    let place = view.real("Stick")
    defer { while umount2(place, CInt(MNT_DETACH)) == 0 {} }
    try mounted(at: place, with: "first")
    #expect(eventually { view.listing("Stick") == ["first"] })
    #expect(umount2(place, CInt(MNT_DETACH)) == 0)
    try mounted(at: place, with: "second")
    #expect(eventually { view.listing("Stick") == ["second"] })
  }

  /// The covered directory and the one that covers it have the same name.
  @Test func fileSystemMountedInAnotherThatCoversAKnownDirectory_isShown() throws {
    let view = try MountedView { makeDirectory("\($0)/Stick/inner") }
    let place = view.real("Stick")
    defer { for point in ["\(place)/inner", place] { umount2(point, CInt(MNT_DETACH)) } }
    #expect(view.listing("Stick") == ["inner"] && view.listing("Stick/inner").isEmpty)
    try mounted(at: place, with: "outer")
    makeDirectory("\(place)/inner")
    #expect(eventually { view.listing("Stick") == ["outer", "inner"] })
    #expect(view.listing("Stick/inner").isEmpty)
    usleep(300_000)
    try mounted(at: "\(place)/inner", with: "nested")
    #expect(eventually { view.listing("Stick/inner") == ["nested"] })
  }
}
