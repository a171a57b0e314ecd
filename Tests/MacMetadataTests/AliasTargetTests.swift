import Testing

@testable import MacMetadata

@Suite struct AliasTargetTests {
  private func path(_ target: AliasTarget?) -> String? {
    target.map { target in
      ([target.volume, target.path].map { components in
        components.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "/")
      }).joined(separator: " | ")
    }
  }

  @Test func bookmarks_giveVolumeAndPath() {
    let samples = [AliasSamples.bookmark, AliasSamples.bookmarkOnVolume]
    for samples in [samples, samples.map(AliasSamples.file)] {
      #expect(path(AliasTarget.ofFile(samples[0])) == " | Users/anna/Documents/Report.txt")
      #expect(path(AliasTarget.ofFile(samples[1])) == "Volumes/Disk | Photos/Zoë.jpg")
    }
  }

  @Test func bookmark_withIconAfterTable_isRead() {
    #expect(
      AliasTarget.ofFile(AliasSamples.file(AliasSamples.bookmark) + Array(repeating: 7, count: 5000)) != nil)
  }

  @Test func aliasRecords_giveVolumeAndPath() {
    #expect(path(AliasRecord.target(AliasSamples.record)) == "Volumes/Disk | Documents/Report.txt")
    #expect(path(AliasRecord.target(AliasSamples.recordWithoutPath)) == " | Bilder/Z.jpg")
    #expect(
      path(AliasTarget.ofResourceFork(AliasSamples.fork(AliasSamples.record)))
        == "Volumes/Disk | Documents/Report.txt")
  }

  /// The name in Unicode is tag 14; without it the name of Mac OS 9 is in Mac Roman, with a slash for the colon of POSIX.
  @Test func carbonPath_isMacRoman() {
    var record = AliasSamples.recordWithoutPath
    let tag = record.indices.first { record[$0...].starts(with: [0, 14, 0, 12]) }!
    record[tag + 1] = 99
    #expect(path(AliasRecord.target(record)) == " | Bilder/Zoë a:b.jpg")
  }

  @Test func fork_withoutAlias_hasNone() {
    let fork = AliasSamples.fork(AliasSamples.record)
    #expect(ResourceFork.resource("icns", in: fork).map { Array(fork[$0]) } == [1, 2, 3])
    #expect(ResourceFork.resource("TEXT", in: fork) == nil)
    #expect(AliasTarget.ofResourceFork([]) == nil)
  }

  @Test func truncatedAliases_areNil() {
    for length in [0, 4, 15, 16, 47, 48, 52, 60, AliasSamples.bookmark.count - 100] {
      #expect(AliasTarget.ofFile(Array(AliasSamples.bookmark.prefix(length))) == nil, "\(length)")
    }
    for length in [0, 7, 149, 150, 200, AliasSamples.record.count - 40] {
      #expect(AliasRecord.target(Array(AliasSamples.record.prefix(length))) == nil, "\(length)")
    }
  }

  @Test func pathsThatLeaveTheVolume_areNil() {
    let up = utf8("..")
    for path in [[], [up], [utf8("a"), up, utf8("b")], [utf8(".")], [utf8("a/b")], [[]], [[0]]] as [[[UInt8]]]
    {
      #expect(AliasTarget(volume: [], path: path) == nil, "\(path)")
      #expect(AliasTarget(volume: path, path: [utf8("a")]) == nil || path.isEmpty, "\(path)")
    }
    #expect(AliasTarget(volume: [], path: Array(repeating: utf8("a"), count: 129)) == nil)
    #expect(AliasTarget(volume: [], path: [Array(repeating: 0x61, count: 256)]) == nil)
  }

  /// Tables that name each other end.
  @Test func bookmark_withCircularTables_isRead() {
    var bookmark = AliasSamples.bookmark
    let table = Int(bookmark[48]) | Int(bookmark[49]) << 8
    bookmark[48 + table + 12] = bookmark[48]
    bookmark[48 + table + 13] = bookmark[49]
    #expect(AliasTarget.ofFile(bookmark) != nil)
  }
}
