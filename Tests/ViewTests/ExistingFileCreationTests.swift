import BackingTree
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// CREATE of a file that is there: the kernel took its name for free, so it has checked the directory alone.
@Suite struct ExistingFileCreationTests {
  /// The mode may grant to strangers what it denies to the members of the group.
  @Test(.enabled(if: geteuid() == 0), arguments: [false, true])
  func existingFile_isOpenedWithAllGroupsOfClient(isMember: Bool) throws {
    let tree = try ViewedTree("a")
    chmod(tree.root, 0o777)
    chown(tree.path("a"), 0, 61002)
    chmod(tree.path("a"), 0o604)
    var process: pid_t = 0
    let words = [
      "setpriv", "--reuid=61001", "--regid=61001", isMember ? "--groups=61002" : "--clear-groups", "sleep",
      "60",
    ]
    var arguments = words.map { strdup($0) } + [nil]
    defer { for argument in arguments { free(argument) } }
    try #require(posix_spawnp(&process, "setpriv", nil, nil, &arguments, environ) == 0)
    defer {
      kill(process, SIGKILL)
      waitpid(process, nil, 0)
    }
    let client = Client(user: 61001, group: 61001, thread: process, umask: 0)
    // It has other ids until it runs the program.
    while client.credentials.groups != (isMember ? [61002] : []) || name(of: process) != "sleep" {
      usleep(1000)
    }
    func open() throws -> OpenFile {
      try "a".withCString { (name) throws(Errno) in
        try tree.view.create(NodeTable.root, name, mode: 0o644, flags: O_RDONLY, client: client).file
      }
    }
    if isMember {
      #expect(throws: Errno.permissionDenied) { tree.view.close(try open()) }
    } else {
      tree.view.close(try open())
    }
  }

  private func name(of process: pid_t) -> String? {
    let bytes = Directory(descriptor: AT_FDCWD).wholeFile("/proc/\(process)/comm")
    return bytes.map { String(decoding: $0.dropLast(), as: UTF8.self) }
  }
}
