import BackingTree
import DisplayNames
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// Operations that change what a name stands for.
@Suite struct PreparedNameTests {
  private func deny() -> ViewOptions {
    var options = ViewOptions()
    options.hidden = .deny
    return options
  }

  private func create(_ name: String, in view: View, flags: CInt = O_WRONLY | O_CREAT) throws {
    let created = try name.withCString { name in
      try view.create(NodeTable.root, name, mode: 0o644, flags: flags, client: .daemon)
    }
    view.close(created.file)
  }

  private func lookup(_ name: String, in parent: NodeID = NodeTable.root, of view: View) throws -> NodeID {
    try name.withCString { try view.lookup(parent, $0).id }
  }

  private func type(_ path: String) -> mode_t? {
    var status = stat()
    return lstat(path, &status) == 0 ? status.st_mode & S_IFMT : nil
  }

  /// `__MACOSX` is hidden only as a directory.
  @Test func nameThatIsHiddenFromDirectories_whenHiddenIsDenied_isFreeForFiles() throws {
    let tree = try ViewedTree("other.txt", options: deny())
    let view = tree.view
    let path = tree.path("__MACOSX")
    try create("__MACOSX", in: view)
    #expect(type(path) == S_IFREG && unlink(path) == 0)
    try "__MACOSX".withCString { name in
      let file = try lookup("other.txt", of: view)
      _ = try view.link(file, to: NodeTable.root, name, client: .daemon)
      try view.unlink(NodeTable.root, name, client: .daemon)
      try "other.txt".withCString { old in
        try view.rename(NodeTable.root, old, to: NodeTable.root, name, flags: [], client: .daemon)
      }
      #expect(type(path) == S_IFREG)
      try view.unlink(NodeTable.root, name, client: .daemon)
      _ = try view.makeSymlink(NodeTable.root, name, to: "target", client: .daemon)
    }
    #expect(type(path) == S_IFLNK && unlink(path) == 0)
  }

  @Test func nameThatIsHiddenFromDirectories_whenHiddenIsDenied_isRefusedToDirectories() throws {
    let tree = try ViewedTree(options: deny())
    let view = tree.view
    #expect(mkdir(tree.path("other"), 0o755) == 0)
    defer { rmdir(tree.path("other")) }
    #expect(throws: Errno.permissionDenied) {
      try "__MACOSX".withCString { try view.makeDirectory(NodeTable.root, $0, mode: 0o755, client: .daemon) }
    }
    #expect(throws: Errno.permissionDenied) {
      try "other".withCString { other in
        try "__MACOSX".withCString {
          try view.rename(NodeTable.root, other, to: NodeTable.root, $0, flags: [], client: .daemon)
        }
      }
    }
    #expect(type(tree.path("__MACOSX")) == nil)
    try create("__MACOSX", in: view)
    for (old, new) in [("other", "__MACOSX"), ("__MACOSX", "other")] {
      #expect(throws: Errno.permissionDenied) {
        try old.withCString { old in
          try new.withCString {
            try view.rename(NodeTable.root, old, to: NodeTable.root, $0, flags: .exchange, client: .daemon)
          }
        }
      }
    }
    #expect(type(tree.path("__MACOSX")) == S_IFREG)
  }

  @Test func create_underAHiddenNameWhileHiddenIsDenied_failsWithEACCES() throws {
    let tree = try ViewedTree(options: deny())
    #expect(throws: Errno.permissionDenied) { try create(".x", in: tree.view) }
    #expect(type(tree.path(".x")) == nil)
  }

  /// The kernel looks the name up first, so only a race between two clients leads here.
  @Test func create_overAPackage_failsWithEACCES() throws {
    let tree = try ViewedTree()
    #expect(mkdir(tree.path("Letter.rtfd"), 0o755) == 0)
    defer { rmdir(tree.path("Letter.rtfd")) }
    #expect(throws: Errno.permissionDenied) { try create("Letter", in: tree.view) }
    #expect(throws: Errno.fileExists) {
      try create("Letter", in: tree.view, flags: O_WRONLY | O_CREAT | O_EXCL)
    }
  }

  /// The kernel repeats a request that failed with ESTALE only once, and the client gets the second error.
  @Test func rename_whoseSecondDirectoryMovesAfterTheRefusal_isRefusedOnce() throws {
    let tree = try ViewedTree()
    let view = tree.view
    defer { for name in ["b2/y", "a2/x", "a2", "b2", "a", "b"] { _ = Glibc.remove(tree.path(name)) } }
    for name in ["a", "b"] { #expect(mkdir(tree.path(name), 0o755) == 0) }
    tree.make("a/x")
    let (a, b) = (try lookup("a", of: view), try lookup("b", of: view))
    _ = try lookup("x", in: a, of: view)
    _ = try? lookup("y", in: b, of: view)
    let client = Client(user: geteuid(), group: getegid(), thread: 7, umask: 0)
    func move() throws {
      try "x".withCString { x in
        try "y".withCString { y in try view.rename(a, x, to: b, y, flags: [], client: client)
        }
      }
    }
    #expect(Glibc.rename(tree.path("a"), tree.path("a2")) == 0)
    #expect(throws: Errno(rawValue: ESTALE)) { try move() }
    #expect(type(tree.path("a2/x")) != nil)
    #expect(Glibc.rename(tree.path("b"), tree.path("b2")) == 0)
    try move()
    #expect(type(tree.path("b2/y")) != nil)
    // The next request of the thread is a new one.
    tree.make("a2/x")
    #expect(throws: Errno(rawValue: ESTALE)) { try move() }
  }
}
