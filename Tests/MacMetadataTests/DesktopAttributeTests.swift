import Testing

@testable import MacMetadata

@Suite struct DesktopAttributeTests {
  @Test func tags_loseColorsAndAreSeparatedByCommas() {
    #expect(
      DesktopAttribute.tags.value(ofPropertyList: textList(["Red\n6", "Grün\n2", "Work"]))
        == utf8("Red,Grün,Work"))
    #expect(
      DesktopAttribute.tags.value(ofPropertyList: textList(["a", "a\n1", "", "\n3", "b"])) == utf8("a,b"))
    #expect(
      DesktopAttribute.tags.value(ofPropertyList: xml("<array><string>x\u{9b}y</string></array>"))
        == utf8("xy"))
  }

  @Test func emptyList_saysThatThereIsNone() {
    for attribute in [DesktopAttribute.tags, .origin] {
      #expect(attribute.value(ofPropertyList: textList([])) == [])
    }
  }

  @Test func comment_keepsLinesButNoControlCharacters() {
    #expect(
      DesktopAttribute.comment.value(ofPropertyList: binaryList([ascii("two\nlines")])) == utf8("two\nlines"))
    #expect(
      DesktopAttribute.comment.value(ofPropertyList: binaryList([ascii("a\u{1b}[31m\u{7f}")]))
        == utf8("a[31m"))
  }

  @Test func origin_isFirstAddress() {
    let list = textList(["https://a.example/x.zip", "https://a.example/"])
    #expect(DesktopAttribute.origin.value(ofPropertyList: list) == utf8("https://a.example/x.zip"))
    #expect(
      DesktopAttribute.origin.value(ofPropertyList: textList(["", "https://b.example/"]))
        == utf8("https://b.example/"))
  }

  @Test func listWithNULOfServer_isRead() {
    #expect(DesktopAttribute.tags.value(ofPropertyList: textList(["a"]) + [0]) == utf8("a"))
  }

  @Test func malformedOrWrongList_isNil() {
    let malformed: [[UInt8]] = [
      [], [0], utf8("bplist00"), Array(textList(["a"]).dropLast()), binaryList([[0x09]]),
      binaryList([[0xD0]]),
    ]
    for list in malformed {
      for attribute in DesktopAttribute.allCases {
        #expect(attribute.value(ofPropertyList: list) == nil, "\(attribute) \(list)")
      }
    }
    #expect(DesktopAttribute.tags.value(ofPropertyList: binaryList([ascii("a")])) == nil)
    #expect(DesktopAttribute.comment.value(ofPropertyList: textList(["a"])) == nil)
  }

  @Test func storageNames_areThoseOfServersAndFileSystems() {
    let names = [
      ("user.com.apple.metadata:_kMDItemUserTags", 0), ("osx.com.apple.metadata:_kMDItemUserTags", 1),
      ("com.apple.metadata:_kMDItemUserTags", 2),
      ("user.DosStream.com.apple.metadata:_kMDItemUserTags:$DATA", 3),
      ("user.DosStream.com.apple.metadata\u{F022}_kMDItemUserTags:$DATA", 3),
      ("user.DosStream.com.apple.metadata\u{F022}_kMDItemUserTags", 3),
      ("user.com.apple.metadata\u{F022}_kMDItemUserTags", 0),
    ]
    for (name, precedence) in names {
      let storage = DesktopAttribute.storage(utf8(name))
      #expect(storage?.attribute == .tags && storage?.precedence == precedence, "\(name)")
    }
    #expect(
      DesktopAttribute.storage(utf8("user.com.apple.metadata:kMDItemFinderComment"))?.attribute == .comment)
    #expect(DesktopAttribute.storage(utf8("user.com.apple.metadata:kMDItemWhereFroms"))?.attribute == .origin)
    for name in [
      "user.xdg.tags", "user.com.apple.metadata:_kMDItemUserTagsX", "user.com.apple.metadata_kMDItemUserTags",
      "com.apple.metadata:_kMDItemUserTags:$DATA", "",
    ] {
      #expect(DesktopAttribute.storage(utf8(name)) == nil, "\(name)")
    }
  }

  @Test func labels_haveNamesOfColors() {
    let names = (0..<8).map { FinderInfo(finderRecord(UInt16($0) << 1))?.labelName }
    #expect(names == [nil, "Gray", "Green", "Purple", "Blue", "Yellow", "Red", "Orange"])
    #expect(FinderInfo(finderRecord(0xFFF1))?.labelName == nil)
  }

  @Test func appleDoubleAttributes_areFound() {
    let file = appleDouble(attributes: [("com.apple.metadata:kMDItemFinderComment", [1, 2, 3]), ("b", [])])
    let header = AppleDouble(file)
    #expect(header?.attributes.map(\.name) == [utf8("com.apple.metadata:kMDItemFinderComment"), utf8("b")])
    #expect(header?.attributes.map { Array(file[$0.range]) } == [[1, 2, 3], []])
    // The header alone, of a file as long.
    #expect(AppleDouble(Array(file.dropLast(3)), fileSize: file.count)?.attributes.count == 2)
    var far = file
    far.replaceSubrange(120..<124, with: [0xFF, 0xFF, 0xFF, 0xFF])
    #expect(AppleDouble(far)?.attributes.map(\.name) == [utf8("b")])
    #expect(AppleDouble(Array(file.prefix(130)), fileSize: file.count)?.attributes == [])
    // No header within the entry of the Finder info.
    #expect(AppleDouble(appleDouble(0))?.attributes == [])
  }

  @Test func oldComments_areUTF8OrMacRoman() {
    #expect(AppleDouble.comment(utf8("für alle\0xyz")) == utf8("für alle"))
    #expect(AppleDouble.comment([0x66, 0x9F, 0x72]) == utf8("für"))
    var file = netatalk(0)
    file.replaceSubrange(46..<50, with: big32(3))
    file.replaceSubrange(154..<157, with: utf8("abc"))
    #expect(AppleDouble(file)?.comment == 154..<157)
    #expect(AppleDouble(netatalk(0))?.comment == nil)
  }
}
