import Testing
import View

@testable import FuseServer

/// The credentials with which data is read and written where the kernel names no client.
@Suite struct DataCredentialsTests {
  private let anna = DataCredentials(user: 1000, group: 1000)
  private let bert = DataCredentials(user: 1001, group: 1000)

  @Test func registrationIdentity_unlessMountIsForRoot_isUnprivileged() {
    #expect(Passthrough.credentials(isOnServer: false, isForRootAlone: false) == .nobody)
    #expect(Passthrough.credentials(isOnServer: true, isForRootAlone: false) == nil)
    #expect(Passthrough.credentials(isOnServer: false, isForRootAlone: true) == .root)
    #expect(Passthrough.credentials(isOnServer: true, isForRootAlone: true) == nil)
  }

  @Test func pagesOfOneWriter_areWrittenAsThatWriter() {
    for isOnServer in [false, true] {
      #expect(
        DataCredentials.ofPages(named: .root, writers: [.root, .root], isOnServer: isOnServer) == .root)
      #expect(DataCredentials.ofPages(named: anna, writers: [anna], isOnServer: isOnServer) == anna)
    }
  }

  @Test func pagesOfSeveralWriters_areNeverWrittenAsRoot() {
    #expect(DataCredentials.ofPages(named: .root, writers: [.root, anna], isOnServer: false) == .nobody)
    #expect(DataCredentials.ofPages(named: anna, writers: [anna, bert], isOnServer: false) == .nobody)
    #expect(DataCredentials.ofPages(named: .root, writers: [.root, anna], isOnServer: true) == anna)
  }
}
