import Testing

@testable import MacMetadata

@Suite struct PropertyListTests {
  @Test func propertyListValues_haveTheirKinds() {
    let bytes = xml(
      "<dict><key>s</key><string>true</string><key>b</key><true/><key>i</key><integer>3</integer><key>r</key><real>1.5</real><key>d</key><data>AAAA</data><key>a</key><array><string>x</string></array></dict>"
    )
    #expect(
      PropertyListValue.parse(bytes)
        == .dictionary([
          "s": .string("true"), "b": .bool(true), "i": .integer(3), "r": .other, "d": .other,
          "a": .array([.string("x")]),
        ]))
    #expect(
      PropertyListValue.parse(
        binaryList([[0xA4, 0, 1, 0, 2, 0, 3, 0, 4], [0x09], [0x10, 7], ascii("x"), [0x42, 1, 2]]))
        == .array([.bool(true), .integer(7), .string("x"), .other]))
  }

  static func nestedXML(_ depth: Int) -> [UInt8] {
    xml(String(repeating: "<array>", count: depth) + String(repeating: "</array>", count: depth))
  }
  static func nestedOldStyle(_ depth: Int) -> [UInt8] {
    utf8(String(repeating: "(", count: depth) + String(repeating: ")", count: depth))
  }
  static func nestedBinary(_ depth: Int) -> [UInt8] {
    binaryList((1..<depth).map { [0xA1, UInt8($0 >> 8), UInt8($0 & 255)] } + [[0xA0]])
  }

  @Test(arguments: [nestedXML, nestedOldStyle, nestedBinary])
  func nesting_beyondLimit_isRejected(nested: @Sendable (Int) -> [UInt8]) {
    #expect(PropertyListValue.parse(nested(60)) != nil)
    for depth in [80, 1000, 50_000] { #expect(PropertyListValue.parse(nested(depth)) == nil) }
  }

  static func deepXML(_ leaves: Int) -> [UInt8] {
    let (open, close) = ("<array>", "</array>")
    return xml(
      String(repeating: open, count: 60) + String(repeating: "<real>1</real>", count: leaves)
        + String(repeating: close, count: 60))
  }
  static func deepOldStyle(_ leaves: Int) -> [UInt8] {
    utf8(
      String(repeating: "(", count: 60) + String(repeating: "<00>,", count: leaves)
        + String(repeating: ")", count: 60))
  }
  /// The leaves are one object.
  static func deepBinary(_ leaves: Int) -> [UInt8] {
    let nested = (1..<60).map { [0xA1, 0, UInt8($0)] as [UInt8] }
    let wide =
      [0xAF, 0x12] + big32(leaves) + Array(repeating: [0, 60] as [UInt8], count: leaves).flatMap { $0 }
    return binaryList(nested + [wide, [0x23, 0, 0, 0, 0, 0, 0, 0, 0]])
  }

  /// For each value the decoder takes a time that grows with its depth: 4 µs a level.
  @Test(arguments: [deepXML, deepOldStyle, deepBinary])
  func manyDeepLeaves_areRejected(list: @Sendable (Int) -> [UInt8]) {
    #expect(PropertyListValue.parse(list(500)) != nil)
    for leaves in [2000, 20_000] { #expect(PropertyListValue.parse(list(leaves)) == nil) }
  }

  @Test(arguments: ["<!-- </array> -->", "<![CDATA[</array>]]>", "<?x </array> ?>", "<array x=\"</array>\">"])
  func decoyClosingTags_doNotHideDepth(decoy: String) {
    #expect(PropertyListValue.parse(xml(String(repeating: "<array>" + decoy, count: 30_000))) == nil)
  }

  @Test func manyShallowElements_areAccepted() {
    let bytes = xml("<array>" + String(repeating: "<array><true/></array>", count: 5000) + "</array>")
    guard case .array(let elements)? = PropertyListValue.parse(bytes) else { return #expect(Bool(false)) }
    #expect(elements.count == 5000)
  }

  @Test(arguments: [
    [[0xA1, 0, 0]], [[0xA1, 0, 1], [0xA1, 0, 0]], [[0xD1, 0, 1, 0, 0], ascii("a")], [[0xD1, 0, 0, 0, 0]],
  ])
  func binaryList_containingItself_isRejected(objects: [[UInt8]]) {
    #expect(PropertyListValue.parse(binaryList(objects)) == nil)
  }

  @Test func sharedObjects_expandingWithoutBound_areRejected() {
    let doubling = (1...40).map { [0xA2, 0, UInt8($0), 0, UInt8($0)] as [UInt8] } + [[0xA0]]
    #expect(PropertyListValue.parse(binaryList(doubling)) == nil)
    let long = [0x5F, 0x12] + big32(100_000) + Array(repeating: UInt8(ascii: "x"), count: 100_000)
    let manyLong = [[0xAF, 0x11, 0x10, 0x00]] + [long]
    #expect(
      PropertyListValue.parse(
        binaryList([manyLong[0] + Array(repeating: [0, 1], count: 4096).flatMap { $0 }, long])) == nil)
    let row = { (child: UInt8) -> [UInt8] in
      [0xAF, 0x11, 0x04, 0x00] + Array(repeating: [0, child] as [UInt8], count: 1024).flatMap { $0 }
    }
    #expect(PropertyListValue.parse(binaryList([row(1), row(2), [0x09]])) == nil)
    #expect(
      PropertyListValue.parse(binaryList([[0xA2, 0, 1, 0, 1], ascii("x")]))
        == .array([.string("x"), .string("x")]))
  }

  @Test func overlappingObjects_areRejected() {
    var bytes = binaryList([[0xA2, 0, 1, 0, 2], ascii("abcdefgh"), ascii("y")])
    let table = bytes.count - 32 - 12
    bytes.replaceSubrange(table + 8..<table + 12, with: bytes[table + 4..<table + 8])
    #expect(PropertyListValue.parse(bytes) == nil)
  }
}
