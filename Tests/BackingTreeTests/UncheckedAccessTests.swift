import Glibc
import SystemPackage
import Testing

@testable import BackingTree

@Suite struct UncheckedAccessTests {
  private static let (owner, group): (uid_t, gid_t) = (61001, 61002)

  private func isGranted(
    _ flags: CInt, _ mode: mode_t, user: uid_t, group: gid_t = 0, hasAccessList: Bool = false
  ) -> Bool {
    var status = stat()
    (status.st_uid, status.st_gid, status.st_mode) = (Self.owner, Self.group, S_IFREG | mode)
    return Credentials(user: user, group: group, groups: [], umask: 0)
      .grant(Credentials.access(forOpening: flags), to: status, hasAccessList: hasAccessList)
  }

  @Test(arguments: [
    (O_RDONLY, R_OK), (O_WRONLY, W_OK), (O_RDWR, R_OK | W_OK), (O_RDONLY | O_TRUNC, R_OK | W_OK),
  ])
  func access_isWhatFlagsUse(flags: CInt, access: CInt) {
    #expect(Credentials.access(forOpening: flags | O_CREAT) == access)
  }

  @Test func owner_needsItsOwnBits() {
    for hasAccessList in [false, true] {
      #expect(isGranted(O_RDWR, 0o600, user: Self.owner, hasAccessList: hasAccessList))
      #expect(!isGranted(O_RDWR, 0o466, user: Self.owner, hasAccessList: hasAccessList))
    }
  }

  @Test func member_needsBitsOfGroup() {
    #expect(isGranted(O_RDWR, 0o060, user: 1, group: Self.group))
    #expect(!isGranted(O_RDWR, 0o606, user: 1, group: Self.group))
  }

  /// The group may be one of its supplementary groups.
  @Test func stranger_needsBitsOfGroupAndOthers() {
    #expect(isGranted(O_RDONLY, 0o044, user: 1))
    #expect(!isGranted(O_RDONLY, 0o604, user: 1))
    #expect(!isGranted(O_RDONLY, 0o640, user: 1))
  }

  @Test func accessList_makesItUncertain() {
    #expect(!isGranted(O_RDONLY, 0o666, user: 1, hasAccessList: true))
    #expect(isGranted(O_RDWR, 0, user: 0, hasAccessList: true))
  }
}
