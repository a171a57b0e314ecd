import CLinux
import Glibc
import SystemPackage
import Testing

@testable import BackingTree

@Suite(.enabled(if: geteuid() == 0, "Only root can change its user.")) struct CredentialsTests {
  /// Of the calling thread: its file-system user and group, its supplementary groups, its umask and its effective capabilities.
  private struct Found: Equatable {
    var fields: [String: String] = [:]

    init() {
      let bytes = Directory(descriptor: AT_FDCWD).wholeFile("/proc/thread-self/status") ?? []
      for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
        let words = line.split(whereSeparator: \.isWhitespace).map(String.init)
        switch words.first {
        case "Uid:", "Gid:": fields[words[0]] = words.last
        case "Groups:", "Umask:", "CapEff:": fields[words[0]] = words.dropFirst().joined(separator: " ")
        default: break
        }
      }
    }

    var mayPassOverPermissions: Bool {
      // CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_FSETID.
      (UInt64(fields["CapEff:"] ?? "", radix: 16) ?? 0) & 0b11110 != 0
    }
  }

  private func act(_ credentials: Credentials, _ error: Errno? = nil) throws -> (
    before: Found, during: Found, after: Found
  ) {
    let before = Found()
    var during: Found?
    do throws(Errno) {
      try credentials.impersonate { () throws(Errno) in
        during = Found()
        if let error { throw error }
      }
    } catch { try #require(error == .noSuchFileOrDirectory) }
    return (before, try #require(during), Found())
  }

  @Test func thread_impersonatingClient_hasClientCredentialsOnly() throws {
    let found = try act(Credentials(user: 61001, group: 61002, groups: [62000, 62001], umask: 0o027))
    #expect(found.during.fields["Uid:"] == "61001" && found.during.fields["Gid:"] == "61002")
    #expect(found.during.fields["Groups:"] == "62000 62001")
    #expect(found.during.fields["Umask:"] == "0027")
    #expect(!found.during.mayPassOverPermissions)
    #expect(found.after == found.before && found.after.mayPassOverPermissions)
  }

  @Test func thread_impersonatingClientWithoutGroups_hasNoGroups() throws {
    for (user, group) in [(61001, 0), (0, 61002), (61001, 61002)] as [(uid_t, gid_t)] {
      let found = try act(Credentials(user: user, group: group, groups: [], umask: 0))
      #expect(found.during.fields["Uid:"] == "\(user)" && found.during.fields["Gid:"] == "\(group)")
      #expect(found.during.fields["Groups:"] == "")
      #expect(found.during.mayPassOverPermissions == (user == 0))
      #expect(found.after == found.before)
    }
  }

  @Test func thread_afterFailedCall_hasItsOwnCredentials() throws {
    let found = try act(
      Credentials(user: 61001, group: 61002, groups: [62000], umask: 0o777), .noSuchFileOrDirectory)
    #expect(found.after == found.before)
  }

  @Test func impersonation_ofInvalidUser_failsAndKeepsThreadCredentials() throws {
    let before = Found()
    // The invalid id.
    let credentials = Credentials(user: .max, group: 61002, groups: [62000], umask: 0o077)
    #expect(throws: Errno.notPermitted) {
      try credentials.impersonate { () throws(Errno) in Issue.record("It must not run.") }
    }
    #expect(Found() == before)
  }

  /// The umask costs two system calls, and most requests carry none.
  @Test func umask_isTheClientsOnlyWhereFilesAreMade() throws {
    let before = try #require(Found().fields["Umask:"])
    let client = Client(user: 61001, group: 61002, thread: 0, umask: 0o073)
    for (makesFiles, umask) in [(false, before), (true, "0073")] {
      var during: Found?
      try client.impersonateWithAnySetID(makesFiles: makesFiles) { () throws(Errno) in during = Found() }
      #expect(during?.fields["Umask:"] == umask && during?.fields["Uid:"] == "61001")
    }
    #expect(Found().fields["Umask:"] == before)
  }

  @Test func callerGroups_whenPIDBelongsToAnotherUser_areEmpty() throws {
    // This process is root's, not that user's.
    #expect(Client(user: 61001, group: 61001, thread: getpid(), umask: 0).credentials.groups == [])
  }
}
