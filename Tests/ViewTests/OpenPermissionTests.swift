import BackingTree
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

@Suite struct OpenPermissionTests {
  private static let (owner, group): (uid_t, gid_t) = (61001, 61002)

  private func isCertain(
    _ flags: CInt, _ mode: mode_t, user: uid_t, group: gid_t = 0, hasAccessList: Bool = false
  ) -> Bool {
    var status = stat()
    (status.st_uid, status.st_gid, status.st_mode) = (Self.owner, Self.group, S_IFREG | mode)
    return OpenPermission.isCertain(
      OpenPermission.access(for: flags), to: status, hasAccessList: hasAccessList,
      for: Client(user: user, group: group, thread: 0, umask: 0))
  }

  @Test(arguments: [
    (O_RDONLY, R_OK), (O_WRONLY, W_OK), (O_RDWR, R_OK | W_OK), (O_RDONLY | O_TRUNC, R_OK | W_OK),
  ])
  func access_isWhatFlagsUse(flags: CInt, access: CInt) {
    #expect(OpenPermission.access(for: flags | O_CREAT) == access)
  }

  @Test func owner_needsItsOwnBits() {
    for hasAccessList in [false, true] {
      #expect(isCertain(O_RDWR, 0o600, user: Self.owner, hasAccessList: hasAccessList))
      #expect(!isCertain(O_RDWR, 0o466, user: Self.owner, hasAccessList: hasAccessList))
    }
  }

  @Test func member_needsBitsOfGroup() {
    #expect(isCertain(O_RDWR, 0o060, user: 1, group: Self.group))
    #expect(!isCertain(O_RDWR, 0o606, user: 1, group: Self.group))
  }

  /// The group may be one of its supplementary groups.
  @Test func stranger_needsBitsOfGroupAndOthers() {
    #expect(isCertain(O_RDONLY, 0o044, user: 1))
    #expect(!isCertain(O_RDONLY, 0o604, user: 1))
    #expect(!isCertain(O_RDONLY, 0o640, user: 1))
  }

  @Test func accessList_makesItUncertain() {
    #expect(!isCertain(O_RDONLY, 0o666, user: 1, hasAccessList: true))
    #expect(isCertain(O_RDWR, 0, user: 0, hasAccessList: true))
  }

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
