import Testing
import View

@testable import FuseServer

/// The identity with which data is read and written where the kernel names no client.
@Suite struct DataIdentityTests {
  private let anna = DataIdentity(user: 1000, group: 1000)
  private let bert = DataIdentity(user: 1001, group: 1000)

  @Test func registrationIdentity_unlessMountIsForRoot_isUnprivileged() {
    #expect(Passthrough.identity(isOnServer: false, isForRootAlone: false) == .nobody)
    #expect(Passthrough.identity(isOnServer: true, isForRootAlone: false) == nil)
    #expect(Passthrough.identity(isOnServer: false, isForRootAlone: true) == .root)
    #expect(Passthrough.identity(isOnServer: true, isForRootAlone: true) == .root)
  }

  @Test func pagesOfOneWriter_areWrittenAsThatWriter() {
    for isOnServer in [false, true] {
      #expect(DataIdentity.ofPages(named: .root, writers: [.root, .root], isOnServer: isOnServer) == .root)
      #expect(DataIdentity.ofPages(named: anna, writers: [anna], isOnServer: isOnServer) == anna)
    }
  }

  @Test func pagesOfSeveralWriters_areNeverWrittenAsRoot() {
    #expect(DataIdentity.ofPages(named: .root, writers: [.root, anna], isOnServer: false) == .nobody)
    #expect(DataIdentity.ofPages(named: anna, writers: [anna, bert], isOnServer: false) == .nobody)
    #expect(DataIdentity.ofPages(named: .root, writers: [.root, anna], isOnServer: true) == anna)
  }
}
