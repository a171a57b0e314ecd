/// Who claims which name, keyed by the name's 64-bit hash.
///
/// Only the number of claimants matters, and who the only one is; their sum tells that without a list. Names whose
/// hashes collide would count as one contested name and be shown in full, which loses nothing.
struct ClaimTable: Sendable {
  private struct Claims {
    var count: UInt32
    var sumOfSlots: Int
  }

  private var table: [Int: Claims] = [:]

  func count(hash: Int) -> Int { Int(table[hash]?.count ?? 0) }

  func onlyClaimant(hash: Int) -> Int? {
    guard let claims = table[hash], claims.count == 1 else { return nil }
    return claims.sumOfSlots
  }

  /// The one claimant besides `slot`, which is one itself or is not.
  func onlyOther(than slot: Int?, isClaimant: Bool, hash: Int) -> Int? {
    guard let claims = table[hash], claims.count == (isClaimant ? 2 : 1) else { return nil }
    return isClaimant ? claims.sumOfSlots - slot! : claims.sumOfSlots
  }

  mutating func add(_ slot: Int, hash: Int) {
    table[hash, default: Claims(count: 0, sumOfSlots: 0)].count += 1
    table[hash]!.sumOfSlots += slot
  }

  mutating func remove(_ slot: Int, hash: Int) {
    guard let claims = table[hash] else { return }
    table[hash] =
      claims.count == 1 ? nil : Claims(count: claims.count - 1, sumOfSlots: claims.sumOfSlots - slot)
  }
}
