import Testing

@testable import MacMetadata

@Suite struct SambaDepotTests {
  /// Both were made by Samba 4.17.
  @Test(arguments: [
    (0xfc2076, ".streams/19/7D/00FE0000000000007620FC0000000000"),
    (0xfc206d, ".streams/19/7D/00FE0000000000006D20FC0000000000"),
  ])
  func depotPath_isThatOfSamba(inode: UInt64, path: String) {
    #expect(SambaDepot.path(device: 0xfe00, inode: inode) == Array(path.utf8))
  }
}
