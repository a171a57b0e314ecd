import BackingTree
import Fuzzing
import Glibc
import Testing

@testable import PackageStream

/// Streams with some of their bytes changed neither bring the importer down nor leave the package.
@Suite struct ImportFuzzTests {
  /// A stream that is accepted is restored whole. `TMPDIR` must keep extended attributes.
  @Test func streams_damaged_areRefusedOrRestoredWhole() throws {
    let temporary = try TemporaryTree(in: getenv("TMPDIR").map { String(cString: $0) } ?? "/var/tmp")
    let around = try states(below: temporary.directory).keys.count
    let stream = try temporary.directory.open("stream", O_CREAT | O_RDWR, mode: 0o600)
    let originals = [Self.mutable, Self.mutable.reversed().filter { $0.kind != .hardLink }].flatMap {
      [PackageImportTests.stream($0), PackageImportTests.stream($0, carriesSums: true)]
    }
    var taken = 0
    try fuzz("streams", rounds: fuzzRounds(1000)) { generator in
      let isReversed = Int.random(in: 0..<16, using: &generator) == 0
      var bytes = originals[(isReversed ? 2 : 0) + Int.random(in: 0..<2, using: &generator)]
      Self.mutate(&bytes, &generator)
      try setSize(stream.rawValue, Int64(bytes.count))
      try bytes.withUnsafeBytes { try writeFully(stream.rawValue, $0, at: 0) }
      guard let found = try? PackageImport(checking: stream.rawValue) else { return false }
      taken += 1
      if taken % 500 == 0 { try clean(temporary) }
      let restored = try temporary.subdirectory("restored \(taken)")
      do throws(PackageImportError) {
        try found.unpack(into: Directory(descriptor: restored.rawValue))
      } catch {
        // The check cannot know which names and attributes this file system refuses, nor what the data should be.
        if error.kind == .refused || error.kind == .notAPackage { throw error }
        return false
      }
      // A package is restored whole or not at all. Without root an import may have unpacked what the test cannot read.
      if geteuid() == 0 {
        let members = try reader(Directory(descriptor: restored.rawValue)).layout.memberCount
        try demand(members == found.memberCount, "\(members) of \(found.memberCount) members were restored")
      }
      return true
    }
    try clean(temporary)
    #expect(try states(below: temporary.directory).count == around + 1)
  }

  private func clean(_ temporary: borrowing TemporaryTree) throws {
    try #require(
      shell(
        "find '\(temporary.path)' -mindepth 1 -maxdepth 1 -name 'restored *' -exec chmod -R u+rwx {} + -exec rm -rf {} +"
      )
        == 0)
  }

  /// One of everything, small.
  static let mutable: [PaxMember] = {
    var long = PackageImportTests.member(String(repeating: "n", count: 120), .regular)
    long.size = 3
    long.modified = FileTime(seconds: 5, nanoseconds: 6)
    var sparse = PackageImportTests.member("o-sparse")
    sparse.size = 1 << 20
    sparse.sparse = SparseMap(ranges: [(512 << 10)..<(513 << 10)], size: 1 << 20)
    var attributed = PackageImportTests.member("a/attributed")
    attributed.attributes = [.init(name: Array("user.a".utf8), value: [0, 1, 2])]
    attributed.size = 600
    return [
      PackageImportTests.member("a", .directory), attributed,
      PackageImportTests.member("a/link", .symlink, to: "../o-sparse"), PackageImportTests.member("b"), long,
      sparse,
      PackageImportTests.member("p", .fifo), PackageImportTests.member("q", .directory),
      PackageImportTests.member("q/r", .directory), PackageImportTests.member("z", .hardLink, to: "b"),
    ]
  }()

  static func mutate(_ bytes: inout [UInt8], _ generator: inout SeededGenerator) {
    let interesting: [UInt8] = [
      0, 0x0a, 0x20, 0x2d, 0x2e, 0x2f, 0x30, 0x31, 0x32, 0x35, 0x37, 0x39, 0x3d, 0x78, 0xff,
    ]
    for _ in 0..<Int.random(in: 1...3, using: &generator) {
      // Most of the meaning of a header is in its first bytes.
      let block = Int.random(in: 0..<max(1, bytes.count / 512), using: &generator) * 512
      let place = min(
        bytes.count - 1,
        block
          + (Bool.random(using: &generator)
            ? Int.random(in: 0..<170, using: &generator) : Int.random(in: 0..<512, using: &generator)))
      let end = min(bytes.count, block + 512)
      switch Int.random(in: 0..<8, using: &generator) {
      case 0: bytes.removeSubrange(block..<end)
      case 1: bytes.insert(contentsOf: bytes[block..<end], at: block)
      case 2: bytes.swapAt(place, Int.random(in: 0..<bytes.count, using: &generator))
      case 3: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
      case 4: bytes[place] = bytes[place] &+ (Bool.random(using: &generator) ? 1 : 255)
      default: bytes[place] = interesting.randomElement(using: &generator) ?? 0
      }
      if bytes.isEmpty { bytes = [0] }
    }
    // With correct checksums the importer reads further before it refuses the change.
    if Int.random(in: 0..<8, using: &generator) != 0 { repairSums(&bytes) }
  }

  /// Corrects every checksum: those of headers, of extended headers, and of the data before them.
  static func repairSums(_ bytes: inout [UInt8]) {
    var start = 0
    var data = 0..<0
    var list = 0..<0
    while start + 512 <= bytes.count {
      if bytes[(start + 257)...].starts(with: "ustar".utf8),
        let header = UstarHeader(parsing: bytes[start..<(start + 512)])
      {
        let after = start + 512
        let length = min(Int(header.size), bytes.count - after)
        if header.type == 0x78 {
          let sum = hexadecimal(DataChecksum.of(Array(bytes[data])))
          let isSparse = end(of: Self.sparseMark, in: bytes[after..<(after + length)]) != nil
          let next = after + length + padding(length) + 512
          list = isSparse ? Self.list(in: bytes, at: next) : 0..<0
          if let place = end(of: Self.sumMark, in: bytes[after..<(after + length)]), place + 8 <= bytes.count
          {
            bytes.replaceSubrange(place..<(place + 8), with: sum)
          }
          let records = Array(bytes[after..<(after + length)] + bytes[list])
          bytes.replaceSubrange(
            (start + 13)..<(start + 21), with: hexadecimal(DataChecksum.of(records)))
        } else if header.type == 0x30 {
          data = (list.isEmpty ? after : min(list.upperBound, after + length))..<(after + length)
          list = 0..<0
        }
        for index in 148..<156 { bytes[start + index] = 0x20 }
        var sum = bytes[start..<(start + 512)].reduce(0) { $0 + Int($1) }
        bytes[start + 154] = 0
        for index in (148..<154).reversed() {
          bytes[start + index] = 0x30 + UInt8(sum & 7)
          sum >>= 3
        }
      }
      start += 512
    }
  }

  private static let sparseMark = Array("GNU.sparse".utf8)
  private static let sumMark = Array("comment=crc32:".utf8)

  /// Where the first occurrence of a mark ends. (`firstRange(of:)` would take half of the time of trying an input.)
  private static func end(of mark: [UInt8], in bytes: ArraySlice<UInt8>) -> Int? {
    guard bytes.count >= mark.count else { return nil }
    let places = bytes.startIndex...(bytes.endIndex - mark.count)
    return places.first { bytes[$0] == mark[0] && bytes[$0...].starts(with: mark) }.map { $0 + mark.count }
  }

  /// The list of a sparse file's segments, with what fills it up to whole blocks; empty where there is none.
  private static func list(in bytes: [UInt8], at start: Int) -> Range<Int> {
    var position = start
    func number() -> Int? {
      guard position < bytes.count, let end = bytes[position...].prefix(20).firstIndex(of: 0x0a) else {
        return nil
      }
      defer { position = end + 1 }
      return decimal(bytes[position..<end]).map { Int($0) }
    }
    guard let count = number(), (1...1000).contains(count) else { return 0..<0 }
    for _ in 0..<(2 * count) where number() == nil { return 0..<0 }
    let end = position + padding(position - start)
    return end <= bytes.count ? start..<end : 0..<0
  }
}
