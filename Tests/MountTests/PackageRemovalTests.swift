import Glibc
import SystemPackage
import Testing

@Suite(.mounting) struct PackageRemovalTests {
  private func view() throws -> MountedView {
    try MountedView { root in
      for number in 0..<50 {
        try put("x", at: "\(root)/Album.photoslibrary/masters/\(number % 5)/\(number).jpg")
      }
      try put("x", at: "\(root)/notes.txt")
    }
  }

  @Test func unlinkOfAPackageRemovesItWhole() throws {
    let view = try view()
    #expect(failure { unlink(view.at("Album")) } == nil)
    #expect(view.listing() == ["notes"])
    #expect(!isThere(view.at("Album")))
    #expect(!isThere(view.at("Album.photoslibrary")))
    // The package is deleted after it has left the view, and nothing of the staging directory stays.
    #expect(eventually(within: .work) { view.realListing() == ["notes.txt"] })
  }

  @Test func aPackageCannotBeUnlinkedByItsRealName() throws {
    let view = try view()
    #expect(failure { unlink(view.at("Album.photoslibrary")) } == .isDirectory)
    #expect(failure { rmdir(view.at("Album.photoslibrary")) } == .directoryNotEmpty)
    #expect(failure { rmdir(view.at("Album")) } == .notDirectory)
    #expect(view.listing("Album.photoslibrary/masters").count == 5)
  }

  @Test func anOrdinaryDirectoryIsNotUnlinked() throws {
    let view = try MountedView { root in try put("x", at: "\(root)/Folder/x") }
    #expect(failure { unlink(view.at("Folder")) } == .isDirectory)
    #expect(failure { rmdir(view.at("Folder")) } == .directoryNotEmpty)
    #expect(unlink(view.at("Folder/x")) == 0)
    #expect(failure { rmdir(view.at("Folder")) } == nil)
  }

  @Test func aPackageThatWasRemovedLeavesItsNameFree() throws {
    let view = try view()
    #expect(failure { unlink(view.at("Album")) } == nil)
    #expect(failure { mkdir(view.at("Album.photoslibrary"), 0o755) } == nil)
    try put("new", at: view.at("Album.photoslibrary/x"))
    #expect(view.listing() == ["Album", "notes"])
    // The old package has been deleted when nothing is in staging any more.
    #expect(view.realListing() == ["Album.photoslibrary", "notes.txt"])
    #expect(text(view.real("Album.photoslibrary/x")) == "new")
  }

  @Test func rmRemovesAPackageAsAFile() throws {
    let view = try view()
    #expect(view.shell("rm Album && rm -r notes && ls -A").text == "")
  }
}
