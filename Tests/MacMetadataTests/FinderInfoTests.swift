import Testing

@testable import MacMetadata

@Suite struct FinderInfoTests {
  static func stored(_ flags: UInt16) -> [(FinderInfo.Store, [UInt8])] {
    [
      (.plain, finderRecord(flags)), (.appleFileSystem, finderRecord(flags)), (.bare, finderRecord(flags)),
      (.netatalk, netatalk(flags)), (.sambaStream, afpInfo(flags)),
      (.sambaStream, Array(afpInfo(flags).dropLast())),
      (.appleDouble, appleDouble(flags)), (.appleDouble, appleDouble(flags, extra: 3760)),
    ]
  }

  @Test func finderInfoStores_areOrderedByPriority() {
    #expect(
      FinderInfo.Store.allCases.map(\.attribute) == [
        "user.com.apple.FinderInfo", "osx.com.apple.FinderInfo", "com.apple.FinderInfo",
        "user.org.netatalk.Metadata",
        "user.DosStream.AFP_AfpInfo:$DATA", nil, nil,
      ])
  }

  @Test func finderFlags_areDecodedFromEveryStore() {
    for (store, bytes) in Self.stored(0x4000) {
      let info = FinderInfo.decode(store: store, bytes: bytes)
      #expect(
        info?.isInvisible == true && info?.hasBundle == false && info?.hidesExtension == false, "\(store)")
    }
    for (store, bytes) in Self.stored(0x2010) {
      let info = FinderInfo.decode(store: store, bytes: bytes)
      #expect(
        info?.isInvisible == false && info?.hasBundle == true && info?.hidesExtension == true, "\(store)")
    }
  }

  @Test func setFinderFlag_changesNothingElse() {
    for ((store, before), (_, after)) in zip(Self.stored(0x8C02), Self.stored(0x8C12)) {
      #expect(FinderInfo.setting(.hidesExtension, to: true, store: store, in: before) == after, "\(store)")
      #expect(FinderInfo.setting(.hidesExtension, to: false, store: store, in: after) == before, "\(store)")
      #expect(FinderInfo.setting(.hidesExtension, to: false, store: store, in: before) == before, "\(store)")
    }
    #expect(
      FinderInfo.record(setting: .hidesExtension) == Array(repeating: 0, count: 9) + [0x10]
        + Array(repeating: 0, count: 22))
  }

  @Test func malformedFinderInfo_isNil() {
    for (store, bytes) in Self.stored(0x4000) {
      for length in [0, 1, 8, 31, 33, 49, 59, 81] where length < bytes.count {
        #expect(
          FinderInfo.decode(store: store, bytes: Array(bytes.prefix(length))) == nil, "\(store) \(length)")
      }
      #expect(FinderInfo.setting(.isInvisible, to: true, store: store, in: Array(bytes.prefix(20))) == nil)
    }
    #expect(FinderInfo.decode(store: .plain, bytes: finderRecord(0) + [0]) == nil)
    #expect(FinderInfo.decode(store: .netatalk, bytes: netatalk(0) + [0]) == nil)
    #expect(FinderInfo.decode(store: .sambaStream, bytes: afpInfo(0) + [0]) == nil)
  }

  @Test func appleDouble_locatesFinderInfoAndResourceFork() {
    #expect(AppleDouble(appleDouble(0))?.finderInfo == 50..<82)
    #expect(AppleDouble(appleDouble(0))?.resourceFork == 82..<86)
    #expect(AppleDouble(appleDouble(0, extra: 8))?.finderInfo == 50..<82)
    #expect(AppleDouble(netatalk(0))?.finderInfo == 122..<154)
    #expect(AppleDouble(netatalk(0))?.resourceFork == nil)
    let start = Array(appleDouble(0).prefix(82))
    #expect(AppleDouble(start)?.resourceFork == nil)
    #expect(AppleDouble(start, fileSize: 86)?.resourceFork == 82..<86)
    #expect(AppleDouble(Array(start.prefix(50)), fileSize: 86)?.finderInfo == 50..<82)
    #expect(FinderInfo.decode(store: .appleDouble, bytes: Array(start.prefix(49))) == nil)
  }

  @Test func appleDouble_isRecognizedByMagicNumber() {
    #expect(AppleDouble.isAppleDouble(appleDouble(0)))
    #expect(!AppleDouble.isAppleDouble(hex("00051600 00020000")))
    #expect(!AppleDouble.isAppleDouble(hex("00051607")))
    #expect(AppleDouble(hex("00051607 00020000")) == nil)
    let far =
      hex("00051607 00020000") + utf8("Mac OS X        ") + [0, 2]
      + [9, 0xFFFF_FFF0, 32, 2, 26, 0xFFFF_FFFF].flatMap(big32)
    #expect(AppleDouble(far)?.entries == [])
  }
}
