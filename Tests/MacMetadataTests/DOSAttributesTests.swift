import Testing

@testable import MacMetadata

@Suite struct DOSAttributesTests {
  static let hiddenArchive: [[UInt8]] = [
    utf8("0x22\0"), utf8("0x22"),
    hex("3078323200 00 0100 0100 0000 22000000"),
    hex(
      "30783232 00 00 0300 0300 0000 11000000 22000000 00000000 00000000 00000000 00000000 80209bcb82d80100 00000000 000000"
    ),
    hex("00 00 0400 0400 0000 11000000 22000000 0102030405060708 80209bcb82d801 00"),
    hex("00 00 0500 0500 0000 11000000 22000000 80209bcb82d80100"),
  ]

  @Test(arguments: hiddenArchive)
  func sambaDOSAttributes_inEveryEncoding_areRead(bytes: [UInt8]) throws {
    let attributes = try #require(DOSAttributes(samba: bytes))
    #expect(attributes.rawValue == 0x22)
    #expect(attributes.contains(.hidden) && !attributes.contains(.system))
  }

  @Test(arguments: [
    [], [0], utf8("22\0"), utf8("0x"), utf8("0xzz"), utf8("0x+2"), utf8("0x123456789"),
    hex("00 00 0600 0600 0000 11000000 22000000"), hex("00 00 0500 0400 0000 11000000 22000000"),
    hex("00 00 0500 0500 0000 10000000 22000000"), hex("00 00 0500 0500 0000 11000000 220000"),
  ])
  func malformedDOSAttributes_areNil(bytes: [UInt8]) {
    #expect(DOSAttributes(samba: bytes) == nil)
  }

  @Test func ntfsAttributes_areReadInTheirByteOrder() {
    #expect(DOSAttributes(ntfsBigEndian: [0, 0, 0, 6]) == [.hidden, .system])
    #expect(DOSAttributes(ntfs: [4, 0, 0, 0]) == [.system])
    #expect(DOSAttributes(ntfsBigEndian: [0, 0, 6]) == nil)
    #expect(DOSAttributes(ntfs: [4, 0, 0, 0, 0]) == nil)
  }
}
