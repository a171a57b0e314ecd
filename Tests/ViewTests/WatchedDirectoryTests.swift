import BackingTree
import DisplayNames
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// The kernel's caches and the directory view share one watch and one record of pending changes.
@Suite struct WatchedDirectoryTests {
  private let tree: ViewedTree
  private var view: View { tree.view }
  private let root = NodeTable.root

  init() throws {
    tree = try ViewedTree("notes.txt")
    tree.view.startCaching(EmptyCache())
  }

  private func version() throws -> DirectoryVersion {
    try #require(view.cached.version(root, view.source.root))
  }

  private func holds(_ name: Name, _ directory: DirectoryView) throws -> Bool {
    try directory.withCurrent { (projection) throws(Errno) in
      projection.slot(realName: name.bytes.span) != nil
    }
  }

  @Test func versionAndView_ofOneDirectory_shareItsWatch() throws {
    let version = try version()
    #expect(try view.directoryView(root).watched === version.directory)
  }

  @Test func droppedView_leavesCachedEntriesWatched() throws {
    let version = try version()
    #expect(try holds("notes.txt", view.directoryView(root)))
    view.releaseDescriptors()
    tree.make("new.txt")
    view.changes.watch?.drain()
    #expect(version.isStale)
    #expect(try holds("new.txt", view.directoryView(root)))
  }

  @Test func directoryWithoutCachedEntries_isWatchedForItsView() throws {
    let directory = try view.directoryView(root)
    #expect(try holds("notes.txt", directory))
    #expect(view.cached.remove(root))
    tree.make("new.txt")
    #expect(try holds("new.txt", directory))
    let version = try version()
    #expect(directory.watched === version.directory)
  }

  @Test func directoryView_droppedWhileInUse_staysTheOnlyOne() throws {
    let directory = try view.directoryView(root)
    #expect(try holds("notes.txt", directory))
    view.releaseDescriptors()
    #expect(try view.directoryView(root) === directory)
    tree.make("new.txt")
    #expect(try holds("new.txt", directory))
  }

  @Test func watch_endsWithTheLastReference() throws {
    weak var watched: WatchedDirectory?
    watched = try version().directory
    #expect(watched != nil)
    #expect(view.cached.remove(root))
    #expect(watched == nil)
  }

  @Test func pendingChange_isProcessedByBothReaders() throws {
    view.startCollectingChanges()
    defer { view.stopChangeLoop() }
    let directory = try view.directoryView(root)
    #expect(try holds("notes.txt", directory))
    tree.make("new.txt")
    // The view takes the change first. It stays pending for the kernel's caches.
    #expect(try holds("new.txt", directory))
    let taken = view.changes.queue.takeDirtyDirectories()
    #expect(taken.count == 1)
    #expect(taken.first?.stale.names == ["new.txt"])
    #expect(taken.first?.view === directory)
    #expect(view.changes.queue.takeDirtyDirectories().isEmpty)
  }

  @Test func version_ofDirectoryThatLeavesTheTable_isStale() throws {
    let before = try version()
    #expect(!before.isStale)
    #expect(view.cached.remove(root))
    #expect(before.isStale)
    #expect(try !version().isStale)
  }

  /// The changes that a failed reading has taken are not pending any more.
  @Test(.enabled(if: geteuid() == 0)) func reading_afterOneThatFailed_isRepeated() throws {
    let directory = try view.directoryView(root)
    #expect(try holds("notes.txt", directory))
    tree.make(".hidden")
    let readings = view.directories.listings.fetched
    #expect(throws: Errno.permissionDenied) {
      try Client(user: 61001, group: 61001, thread: 0, umask: 0).impersonate { () throws(Errno) in
        try directory.withCurrent { (_: borrowing Projection) in }
      }
    }
    #expect(view.directories.listings.fetched == readings + 1)
    #expect(try holds(".hidden", directory))
    #expect(view.directories.listings.fetched == readings + 2)
  }
}
