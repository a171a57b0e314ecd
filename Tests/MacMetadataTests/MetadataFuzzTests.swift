import Fuzzing
import Testing

@testable import MacMetadata

/// Damaged input ends in a value or in nil. `Mount/fuzz` runs each of these with a million inputs.
@Suite struct MetadataFuzzTests {
  static let binaryLists = [sampleBinaryTable, binaryList([[0xA2, 0, 1, 0, 2], [0x09], [0x10, 7]])]
  static let list = xml(
    "<dict><key>a</key><array><string>b&amp;</string><true/></array><key>c</key><integer>3</integer></dict>")
  static let oldStyle = utf8("/* c */ \"a\" = \"\\U00e9\\n😀\"; b = (c, {d = <00ff>;}); e;")

  private func fuzz(_ name: String, _ samples: [[UInt8]], parse: ([UInt8]) throws -> Bool) throws {
    for sample in samples { #expect(try parse(sample), "an undamaged sample") }
    try Fuzzing.fuzz(name) { generator in
      let sample = samples.randomElement(using: &generator) ?? []
      return try parse(damaged(sample, largest: ParserLimits.inputBytes, &generator))
    }
  }

  @Test func propertyLists_damaged_areParsedOrRejected() throws {
    let deep = [PropertyListTests.deepBinary, PropertyListTests.deepXML, PropertyListTests.deepOldStyle]
    try fuzz("property lists", Self.binaryLists + [Self.list] + deep.map { $0(20) }) {
      PropertyListValue.parse($0) != nil
    }
  }

  @Test func stringTables_damaged_areParsedOrRejected() throws {
    let samples = [Self.oldStyle, [0xFF, 0xFE] + utf16("\"ab\" = \"cé\";"), sampleBinaryTable]
    try fuzz("string tables", samples) { StringTable.parse($0) != nil }
  }

  @Test func localizationTables_damaged_areParsedOrRejected() throws {
    try fuzz("localization tables", [utf8("de = {a = b;}; LocProvenance = x;")]) {
      LocalizationTable.parse($0) != nil
    }
  }

  @Test func bundles_damaged_areParsedOrRejected() throws {
    let declaring = utf8(
      "{CFBundleName = a; UTExportedTypeDeclarations = ({UTTypeIdentifier = b; UTTypeConformsTo = (b);});}")
    try fuzz("bundles", [declaring]) { bytes in
      guard let info = BundleInfo(bytes) else { return false }
      _ = PackageExtension.declared(by: [info, info], packageTypes: ["b"])
      return true
    }
  }

  @Test func finderInfo_damaged_changesInOneFlagOnly() throws {
    try fuzz("Finder info", FinderInfoTests.stored(0x4000).map(\.1)) { bytes in
      var found = false
      for store in FinderInfo.Store.allCases where FinderInfo.decode(store: store, bytes: bytes) != nil {
        found = true
        // One flag changes, and nothing else.
        let changed = FinderInfo.setting(.isInvisible, to: true, store: store, in: bytes) ?? []
        let differences = zip(changed, bytes).count { $0 != $1 }
        try demand(changed.count == bytes.count && differences <= 1, "\(store) was changed beside the flag")
      }
      return found
    }
  }

  @Test func appleDoubleFiles_damaged_havePartsWithinTheFile() throws {
    let withAttributes = appleDouble(attributes: [
      ("com.apple.metadata:kMDItemFinderComment", [1, 2]), ("b", [3]),
    ])
    try fuzz("AppleDouble files", [appleDouble(0), netatalk(0), withAttributes]) { bytes in
      guard let file = AppleDouble(bytes) else { return false }
      let ends = file.entries.map(\.range.upperBound) + file.attributes.map(\.range.upperBound)
      let end = ends.max() ?? 0
      try demand(end <= bytes.count, "a part reaches beyond the file")
      return true
    }
  }

  @Test func tagLists_damaged_giveLimitedValuesOrNil() throws {
    let samples = [
      textList(["Red\n6", "Grün\n2", "Work"]), textList(["a"]) + [0], binaryList([ascii("comment")]),
    ]
    try fuzz("tag lists", samples) { bytes in
      let values = DesktopAttribute.allCases.compactMap { $0.value(ofPropertyList: bytes) }
      try demand(
        values.allSatisfy { $0.count <= DesktopAttribute.largestValue && !$0.contains(0) },
        "a value is no text")
      return !values.isEmpty
    }
  }

  private func demandNames(of target: AliasTarget?) throws -> Bool {
    guard let target else { return false }
    let names = target.volume + target.path
    try demand(
      !target.path.isEmpty && names.count <= AliasTarget.maximumDepth
        && names.allSatisfy { !$0.isEmpty && $0.count <= 255 && !$0.contains(0x2f) && $0 != utf8("..") },
      "a path leaves the volume")
    return true
  }

  @Test func bookmarks_damaged_giveNamesOrNil() throws {
    let samples = [AliasSamples.bookmark, AliasSamples.bookmarkOnVolume]
    try fuzz("bookmarks", samples + samples.map(AliasSamples.file)) { bytes in
      try demandNames(of: AliasTarget.ofFile(bytes))
    }
  }

  @Test func aliasRecords_damaged_giveNamesOrNil() throws {
    try fuzz("alias records", [AliasSamples.record, AliasSamples.recordWithoutPath]) { bytes in
      try demandNames(of: AliasRecord.target(bytes))
    }
  }

  @Test func aliasForks_damaged_giveNamesOrNil() throws {
    try fuzz("resource forks of aliases", [AliasSamples.fork(AliasSamples.record)]) { bytes in
      try demandNames(of: AliasTarget.ofResourceFork(bytes))
    }
  }

  @Test func dosAttributes_damaged_areParsedOrRejected() throws {
    try fuzz("DOS attributes", DOSAttributesTests.hiddenArchive) { bytes in
      let ntfs = DOSAttributes(ntfsBigEndian: bytes) ?? DOSAttributes(ntfs: bytes)
      return DOSAttributes(samba: bytes) ?? ntfs != nil
    }
  }

  @Test func hiddenLists_damaged_giveSingleLinesOrNil() throws {
    try fuzz("hidden lists", [utf8("a\nb\r\n\n")]) { bytes in
      guard let names = HiddenList.parse(bytes) else { return false }
      try demand(names.allSatisfy { !$0.isEmpty && !$0.contains(0x0a) }, "a name is no line")
      return true
    }
  }

  @Test func desktopEntries_damaged_areParsedOrRejected() throws {
    try fuzz("desktop entries", [utf8("[Desktop Entry]\nName=a\\sb\nName[de_AT] = c\n[x]\nName=d")]) {
      DesktopEntry.names($0) != nil
    }
  }

  @Test func userDirectories_damaged_areParsedOrRejected() throws {
    try fuzz("user directories", [utf8("XDG_MUSIC_DIR=\"$HOME/a\\\"b\"\nXDG_DESKTOP_DIR=\"/x\"")]) {
      UserDirectory.parse($0) != nil
    }
  }

  @Test func catalogs_damaged_areParsedOrRejected() throws {
    let samples = [
      catalog([("Desktop", "Bureau")]), catalog([("Desktop", "b"), ("Music", "c")], bigEndian: true),
    ]
    try fuzz("catalogs", samples) { MessageCatalog($0)?.translation(of: "Desktop") != nil }
  }

  @Test func icons_damaged_givePixelsOfTheirSize() throws {
    let samples: [[UInt8]] = [
      icns([
        ("ic07", pngHeader(128, 128)), ("ic08", jp2Header(256, 256)),
        ("ic04", utf8("ARGB") + planes([1, 2, 3, 4], side: 16)),
      ]),
      icns([
        ("s8mk", Array(repeating: 3, count: 256)), ("is32", planes([1, 2, 3], side: 16)),
        ("icp5", planes([1, 2, 3], side: 32)),
      ]),
    ]
    try fuzz("icons", samples) { bytes in
      guard let family = IconFamily(bytes) else { return false }
      try demand(family.icons.count <= 256, "\(family.icons.count) icons")
      return try family.icons.prefix(4).contains { icon in
        guard let picture = family.picture(of: icon) else { return false }
        if case .bitmap(let bitmap) = picture {
          try demand(
            bitmap.width == icon.side && bitmap.bytes.count == 4 * icon.side * icon.side, "another size")
        }
        return true
      }
    }
  }

  @Test func resourceForks_damaged_haveResourcesWithinTheFork() throws {
    let sample = resourceFork([("STR ", [(1, [1, 2])]), ("icns", [(1, [1]), (-16455, [1, 2, 3])])])
    try fuzz("resource forks", [sample]) { bytes in
      guard let range = ResourceFork.resource("icns", ResourceFork.customIcon, in: bytes) else {
        return false
      }
      try demand(
        range.lowerBound >= 4 && range.upperBound <= bytes.count, "a resource reaches beyond the fork")
      return true
    }
  }

  @Test func pictureHeaders_damaged_areReadOrRejected() throws {
    let samples = [
      pngHeader(3, 4), PictureHeaderTests.jpeg, PictureHeaderTests.tiff, jp2Header(3, 4),
      codestreamHeader(3, 4),
    ]
    try fuzz("picture headers", samples) { bytes in
      guard let header = PictureHeader(bytes) else { return false }
      try demand(header.width > 0 && header.height > 0, "a side without pixels")
      return true
    }
  }
}
