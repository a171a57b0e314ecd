/// The claims on display names, or the children that have names of one shared form, keyed by the name's 64-bit hash.
///
/// Only the number of claimants of a name matters, and the claimant if there is exactly one. The sum of the claimants' slots
/// yields the latter without a list. Names with colliding hashes count as one contested name and are shown in full, which loses
/// nothing.
///
/// Open addressing, 16 bytes per cell. A cell whose last claim is removed keeps its hash until the table grows.
struct ClaimTable: Sendable {
  private struct Cell {
    /// 0 marks an empty cell.
    var hash: UInt64 = 0
    var count: UInt32 = 0
    /// Wraps around. Used only for one claimant, or for two of which one is known.
    var sumOfSlots: UInt32 = 0
  }

  private var cells: [Cell] = []
  private var used = 0
  /// Makes room for `count` names.
  mutating func reserve(_ count: Int) {
    if count * 3 > cells.count * 2 { grow(for: count) }
  }

  func count(hash: Int) -> Int { find(hash).map { Int(cells[$0].count) } ?? 0 }

  func onlyClaimant(hash: Int) -> Int? {
    guard let position = find(hash), cells[position].count == 1 else { return nil }
    return Int(cells[position].sumOfSlots)
  }

  /// The only claimant other than `slot`. `isClaimant` says whether `slot` is a claimant itself.
  func onlyOther(than slot: Int?, isClaimant: Bool, hash: Int) -> Int? {
    guard let position = find(hash), cells[position].count == (isClaimant ? 2 : 1) else { return nil }
    let sum = cells[position].sumOfSlots
    return Int(isClaimant ? sum &- UInt32(slot!) : sum)
  }

  /// - Returns: the number of claimants of the name, including this one.
  @discardableResult
  mutating func add(_ slot: Int, hash: Int) -> Int {
    if (used + 1) * 3 > cells.count * 2 { grow(for: (cells.lazy.filter { $0.count > 0 }.count + 1) * 4 / 3) }
    let position = cellPosition(of: hash)
    if cells[position].hash == 0 {
      used += 1
      cells[position].hash = Self.key(hash)
    }
    cells[position].count += 1
    cells[position].sumOfSlots &+= UInt32(slot)
    return Int(cells[position].count)
  }

  mutating func remove(_ slot: Int, hash: Int) {
    guard let position = find(hash), cells[position].count > 0 else { return }
    cells[position].count -= 1
    cells[position].sumOfSlots &-= UInt32(slot)
  }

  private static func key(_ hash: Int) -> UInt64 { hash == 0 ? 1 : UInt64(bitPattern: Int64(hash)) }

  private func find(_ hash: Int) -> Int? {
    guard !cells.isEmpty else { return nil }
    let position = cellPosition(of: hash)
    return cells[position].hash == 0 ? nil : position
  }

  /// The position of the hash, or of the empty cell where it would be inserted.
  private func cellPosition(of hash: Int) -> Int {
    let key = Self.key(hash)
    let mask = cells.count - 1
    // The upper bits, as in `NameTable`.
    var position = Int(truncatingIfNeeded: key >> UInt64(64 - cells.count.trailingZeroBitCount))
    while cells[position].hash != 0, cells[position].hash != key { position = (position + 1) & mask }
    return position
  }

  /// Keeps at least a third of the cells empty, even if all present claims are kept.
  private mutating func grow(for count: Int) {
    var capacity = 16
    while capacity * 2 < count * 3 { capacity *= 2 }
    let old = cells
    cells = [Cell](repeating: Cell(), count: capacity)
    used = 0
    for cell in old where cell.count > 0 {
      cells[cellPosition(of: Int(truncatingIfNeeded: cell.hash))] = cell
      used += 1
    }
  }
}
