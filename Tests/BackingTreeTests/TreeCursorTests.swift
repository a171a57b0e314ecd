import Glibc
import SystemPackage
import Testing

@testable import BackingTree

@Suite struct TreeCursorTests {
  /// A directory with what `script` makes in it.
  private func withTree(_ script: String, _ body: (Directory, String) throws -> Void) throws {
    var template = Array("/tmp/displayfs-cursor-XXXXXX".utf8CString)
    let path = try #require(mkdtemp(&template).map { String(cString: $0) })
    defer { #expect(run("rm -r '\(path)'") == 0) }
    try #require(run("cd '\(path)' && \(script)") == 0)
    let opened = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    defer { close(opened) }
    try body(Directory(descriptor: opened), path)
  }

  private func run(_ script: String) -> CInt {
    var child: pid_t = 0
    let arguments: [UnsafeMutablePointer<CChar>?] = [strdup("/bin/sh"), strdup("-c"), strdup(script), nil]
    defer { for argument in arguments { free(argument) } }
    guard posix_spawn(&child, "/bin/sh", nil, nil, arguments, environ) == 0 else { return -1 }
    var status: CInt = 0
    waitpid(child, &status, 0)
    return status
  }

  @Test func cursor_leaveAndMove_reachExpectedDirectories() throws {
    try withTree("mkdir -p 1/2/3/4/5/6/7/8 1/2/x") { top, _ in
      var cursor = try TreeCursor(top)
      var identities = [cursor.identity]
      for name in 1...8 {
        try cursor.enter("\(name)")
        identities.append(cursor.identity)
      }
      #expect(cursor.path == Array("1/2/3/4/5/6/7/8".utf8) && cursor.depth == 8)
      while cursor.depth > 0 {
        try cursor.leave()
        #expect(cursor.identity == identities[cursor.depth])
        #expect(FileIdentity(try cursor.directory.status()) == cursor.identity)
      }
      try cursor.move(to: Array("1/2/3/4/5/6".utf8))
      #expect(cursor.identity == identities[6])
      try cursor.move(to: Array("1/2/x".utf8))
      #expect(cursor.path == Array("1/2/x".utf8) && cursor.depth == 3)
    }
  }

  @Test func cursor_enterSymlinkOrFile_fails() throws {
    try withTree("mkdir d && ln -s d link && : >file") { top, _ in
      var cursor = try TreeCursor(top)
      for name in ["link", "file", "..", "absent"] {
        #expect(throws: Errno.self) { try cursor.enter(name) }
        #expect(cursor.depth == 0)
      }
    }
  }

  /// The cursor has closed the directories far above it, and must not mistake other directories for them.
  @Test func cursor_leaveAfterAncestorWasMoved_fails() throws {
    try withTree("mkdir -p a/b/c/d/e/f/g elsewhere/deep") { top, path in
      var cursor = try TreeCursor(top)
      for name in ["a", "b", "c", "d", "e", "f", "g"] { try cursor.enter(name) }
      try #require(rename("\(path)/a/b/c", "\(path)/elsewhere/deep/c") == 0)
      #expect(throws: Errno.ioError) { while cursor.depth > 0 { try cursor.leave() } }
    }
  }
}
