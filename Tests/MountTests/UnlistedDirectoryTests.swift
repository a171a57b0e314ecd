import Testing

/// Directories that a file system finds by name and does not list: snapshots of CephFS and of NFS servers, and what automount(8)
/// mounts.
@Suite(.mounting, .asRoot) struct UnlistedDirectoryTests {
  @Test(arguments: ["", "profile=none", "hidden=show"])
  func unlistedDirectory_afterListing_isReachedByName(options: String) throws {
    let view = try MountedView(options) { root in _ = try FaultyFileSystem(at: root) }
    #expect(view.listing().contains("Folder") && !view.listing().contains(".snap"))
    #expect(status(view.at(".snap"))?.isDirectory == true && view.listing(".snap") == [])
    #expect(!isThere(view.at(".other")))
  }

  @Test func unlistedDirectory_ofNestedFileSystem_isReachedByName() throws {
    let view = try MountedView { root in
      makeDirectory("\(root)/net")
      _ = try FaultyFileSystem(at: "\(root)/net")
    }
    #expect(view.listing("net").contains("Folder") && !view.listing("net").contains("host"))
    #expect(status(view.at("net/host"))?.isDirectory == true && view.listing("net/host") == [])
    #expect(status(view.at("net/.snap"))?.isDirectory == true && !isThere(view.at("net/other")))
  }

  @Test func unlistedDirectory_whereHiddenEntriesAreDenied_isNotReached() throws {
    let view = try MountedView("hidden=deny") { root in _ = try FaultyFileSystem(at: root) }
    #expect(view.listing().contains("Folder"))
    #expect(!isThere(view.at(".snap")))
  }
}
