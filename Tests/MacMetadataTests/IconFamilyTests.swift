import Testing

@testable import MacMetadata

@Suite struct IconFamilyTests {
  private func sides(_ elements: [(type: String, data: [UInt8])]) throws -> [Int] {
    try #require(IconFamily(icns(elements))).icons.map(\.side)
  }

  @Test func icons_ofEveryKind_areListedBySize() throws {
    let elements: [(type: String, data: [UInt8])] = [
      ("TOC ", [1, 2, 3]), ("ic09", pngHeader(512, 512)),
      ("ic04", utf8("ARGB") + planes([1, 2, 3, 4], side: 16)),
      ("il32", planes([1, 2, 3], side: 32)), ("icnV", [0, 0, 0, 0]), ("ic07", pngHeader(128, 128)),
    ]
    #expect(try sides(elements) == [16, 32, 128, 512])
  }

  @Test func png_isReturnedAsItIs() throws {
    let png = pngHeader(256, 200) + [1, 2, 3]
    let family = try #require(IconFamily(icns([("ic08", png)])))
    #expect(family.icons.map(\.side) == [256])
    #expect(family.picture(of: family.icons[0]) == .encoded(png))
  }

  @Test(arguments: [("ic04", 16), ("ic05", 32), ("icsb", 18), ("icsB", 36), ("sb24", 24), ("SB24", 48)])
  func planesWithAlpha_becomePixels(type: String, side: Int) throws {
    let family = try #require(IconFamily(icns([(type, utf8("ARGB") + planes([0x80, 1, 2, 3], side: side))])))
    let pixels = Array(repeating: [1, 2, 3, 0x80] as [UInt8], count: side * side).flatMap { $0 }
    #expect(family.icons.map(\.side) == [side])
    #expect(
      family.picture(of: family.icons[0])
        == PixelBitmap(width: side, height: side, bytes: pixels).map { .bitmap($0) })
  }

  @Test(arguments: [("is32", 16, "s8mk"), ("il32", 32, "l8mk"), ("ih32", 48, "h8mk"), ("it32", 128, "t8mk")])
  func planesWithoutAlpha_takeItFromTheirMask(type: String, side: Int, mask: String) throws {
    let zeros: [UInt8] = type == "it32" ? [0, 0, 0, 0] : []
    let color = (type: type, data: zeros + planes([7, 8, 9], side: side))
    let alpha = (type: mask, data: Array(repeating: UInt8(0x40), count: side * side))
    for (alpha, elements) in [(UInt8(0xFF), [color]), (0x40, [alpha, color])] {
      let family = try #require(IconFamily(icns(elements)))
      let pixels = Array(repeating: [7, 8, 9, alpha] as [UInt8], count: side * side).flatMap { $0 }
      let expected = PixelBitmap(width: side, height: side, bytes: pixels).map {
        IconFamily.Picture.bitmap($0)
      }
      #expect(family.picture(of: family.icons[0]) == expected)
    }
  }

  @Test func runLengths_areLiteralsAndRepetitions() {
    #expect(
      RunLengths.expand([2, 1, 2, 3, 0x80, 9, 0xFF, 5][...], count: 136) == [1, 2, 3, 9, 9, 9]
        + Array(repeating: 5, count: 130))
    #expect(RunLengths.expand([0xFF, 5][...], count: 100) == Array(repeating: 5, count: 100))
    for short in [[], [0xFF], [3, 1], [0x80, 1]] as [[UInt8]] {
      #expect(RunLengths.expand(short[...], count: 4) == nil)
    }
  }

  @Test func icon_withDataCutOff_hasNoPicture() throws {
    let family = try #require(IconFamily(icns([("il32", Array(planes([1, 2, 3], side: 32).dropLast(2)))])))
    #expect(family.picture(of: family.icons[0]) == nil)
  }

  @Test func elementBeyondTheEnd_isLeftOutWithAllThatFollows() throws {
    var bytes = icns([
      ("ic07", pngHeader(128, 128)), ("ic08", pngHeader(256, 256)), ("ic09", pngHeader(512, 512)),
    ])
    // The length of the second.
    bytes.replaceSubrange(8 + 8 + 29 + 4..<8 + 8 + 29 + 8, with: big32(1000))
    #expect(try #require(IconFamily(bytes)).icons.map(\.side) == [128])
    bytes.replaceSubrange(8 + 8 + 29 + 4..<8 + 8 + 29 + 8, with: big32(0))
    #expect(try #require(IconFamily(bytes)).icons.map(\.side) == [128])
  }

  @Test func otherFiles_areNoIcons() {
    for bytes in [[], utf8("icns"), utf8("ICNS\0\0\0\u{8}"), pngHeader(1, 1)] {
      #expect(IconFamily(bytes) == nil)
    }
  }

  /// 256 and 512 pixels were JPEG 2000 once.
  @Test func jpeg2000_isReturnedAsItIs() throws {
    let picture = jp2Header(256, 200) + [1, 2, 3]
    let family = try #require(IconFamily(icns([("ic08", picture), ("ic09", codestreamHeader(512, 512))])))
    #expect(family.icons.map(\.side) == [256, 512])
    #expect(family.picture(of: family.icons[0]) == .encoded(picture))
  }

  /// What has fewer bits has no picture at all.
  @Test func elementsThatNothingDecodes_areLeftOut() throws {
    let withoutSize = hex("0000000C 6A502020 0D0A870A")
    #expect(
      try sides([
        ("ic08", withoutSize), ("ic09", PictureHeaderTests.jpeg),
        ("icl8", Array(repeating: 0, count: 1024)),
        ("is32", planes([1, 1, 1], side: 16)),
      ]) == [16])
  }
}

@Suite struct ResourceForkTests {
  private static let fork = resourceFork([
    ("STR ", [(128, [9])]), ("icns", [(1, [1]), (-16455, [2, 3, 4]), (7, [])]),
  ])

  @Test func resource_isFoundByTypeAndNumber() throws {
    func data(_ type: String, _ number: Int16) -> [UInt8]? {
      ResourceFork.resource(type, number, in: Self.fork).map { Array(Self.fork[$0]) }
    }
    #expect(data("icns", ResourceFork.customIcon) == [2, 3, 4])
    #expect(data("icns", 7) == [])
    #expect(data("STR ", 128) == [9])
    #expect(data("icns", 2) == nil)
    #expect(data("ICN#", 1) == nil)
  }

  @Test func resource_beyondTheFork_isNotThere() {
    let map = Int(Self.fork.bigEndian(UInt32.self, at: 4) ?? 0)
    for length in 0..<map + 28 {
      #expect(ResourceFork.resource("icns", 1, in: Array(Self.fork[..<length])) == nil)
    }
    // The length of the first resource's data.
    var fork = resourceFork([("icns", [(1, [1, 2])])])
    fork.replaceSubrange(256..<260, with: big32(1000))
    #expect(ResourceFork.resource("icns", 1, in: fork) == nil)
  }

  @Test func forkWithoutResources_hasNone() {
    #expect(ResourceFork.resource("icns", 1, in: resourceFork([])) == nil)
  }
}

@Suite struct PictureHeaderTests {
  static let jpeg = hex("FFD8 FFE0 0010 4A46494600010100000100010000 FFFF C2 0011 08 0102 0304 03")
  static let tiff = hex(
    "4949 2A00 08000000 0300 FE00 0400 01000000 00000000 0001 0300 01000000 2C010000 0101 0400 01000000 C8000000"
  )

  @Test func size_ofEachFormat_isRead() {
    func header(_ bytes: [UInt8]) -> String? {
      PictureHeader(bytes).map { "\($0.format) \($0.width) \($0.height) \($0.side)" }
    }
    #expect(header(pngHeader(300, 200)) == "png 300 200 300")
    #expect(header(Self.jpeg) == "jpeg 772 258 772")
    #expect(header(Self.tiff) == "tiff 300 200 300")
    let big = hex("4D4D 002A 00000008 0002 0100 0003 00000001 012C0000 0101 0003 00000001 00C80000")
    #expect(header(big) == "tiff 300 200 300")
    #expect(header(jp2Header(300, 200)) == "jpeg2000 300 200 300")
    // The picture is where the grid begins to the right of and below the origin.
    #expect(header(codestreamHeader(300, 200, left: 100, top: 50)) == "jpeg2000 200 150 200")
  }

  @Test func otherBytes_areNoPicture() {
    // The PNG of applications for iOS begins with CgBI.
    let optimized = hex("89504E47 0D0A1A0A 00000004 43674249 50002002") + Array(repeating: 0, count: 20)
    for bytes in [
      [], optimized, pngHeader(0, 5), Array(Self.jpeg.dropLast(6)), hex("FFD8FFD9"), hex("49492A00FFFFFFFF"),
      jp2Header(0, 5), codestreamHeader(5, 5, left: 6), Array(jp2Header(4, 4).dropLast()),
      Array(codestreamHeader(4, 4).dropLast()),
      // A box without its eight bytes of header, in which one would look for ever.
      Array(jp2Header(4, 4).prefix(12)) + hex("00000000 66747970 6A703220 00000000"),
    ] {
      #expect(PictureHeader(bytes) == nil)
    }
  }
}
