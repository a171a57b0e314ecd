import BackingTree
import Testing

@testable import View

/// Inode numbers and names that are chosen to collide under a hash without a key do not under that of the node index.
@Suite struct NodeIndexTests {
  private static let factor: UInt64 = 0x9e37_79b9_7f4a_7c15

  private func places(_ hashes: [Int]) -> Int { Set(hashes.map { $0 & 0xffff }).count }

  @Test func hashesOfInodesCollidingUnderFibonacciHashing_differ() {
    // Newton's iteration for the inverse of an odd number modulo 2^64.
    var inverse = Self.factor
    for _ in 0..<6 { inverse = inverse &* (2 &- Self.factor &* inverse) }
    let hashes = (1...4096).map { (number: UInt64) in
      NodeIndex.hash(FileIdentity(device: 0, inode: (number << 48) &* inverse), .plain)
    }
    // 4096 balls in 65 536 boxes hit some 3970 of them. With some keys the hashes of such regular numbers are less even, and hit
    // 3500. Without keys they all have one place.
    #expect(places(hashes) > 2048)
  }

  @Test func hashesOfNamesCollidingUnderUnkeyedHashing_differ() {
    func unkeyed(_ name: String) -> UInt64 {
      let mixed = name.utf8.reduce(Self.factor) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01b3 }
      return mixed ^ (mixed >> 32)
    }
    let colliding = (0..<400_000).lazy.map { "name\($0)" }.filter { unkeyed($0) & 0x3ff == 0 }
    let hashes = colliding.map { name in name.withCString { NodeIndex.hash(parent: 1, $0) & 0x3ff } }
    #expect(
      hashes.count > 200 && Set(hashes).count > 150, "\(hashes.count) names in \(Set(hashes).count) places")
  }

  /// A number that is added takes the cell of a removed one, before others that are further along the same row.
  @Test func numbers_removedAndAddedAgain_areFound() {
    var index = NodeIndex()
    var hashes: [UInt32: Int] = [:]
    for round in 0..<2000 {
      let number = UInt32(round * 7 % 40 + 1)
      if let hash = hashes.removeValue(forKey: number) { index.remove(number, hash: hash) }
      #expect(index.find(hash: 0) { $0 == number } == nil)
      let hash = Int.random(in: 0..<8)
      hashes[number] = hash
      index.insert(number, hash: hash) { hashes[$0]! }
      let missing = hashes.filter { (number, hash) in index.find(hash: hash) { $0 == number } != number }
      #expect(missing.isEmpty)
    }
  }
}
