/// An open-addressed set of slots, found by the hash of a name that the caller keeps.
///
/// Eight bytes an entry at half load: a directory of a million entries has one of these, and a dictionary of names
/// would keep every name twice.
struct NameTable: Sendable {
  private struct Cell {
    /// The slot plus one; 0 is empty, `tombstone` was removed.
    var slot: UInt32 = 0
    /// The upper half of the hash, to compare names only when they are likely to be equal.
    var tag: UInt32 = 0
  }

  private static let tombstone = UInt32.max
  private var cells: [Cell] = []
  private var used = 0

  func find(hash: Int, where isMatch: (Int) -> Bool) -> Int? {
    guard !cells.isEmpty else { return nil }
    let mask = cells.count - 1
    let tag = UInt32(truncatingIfNeeded: hash >> 32)
    var position = hash & mask
    while cells[position].slot != 0 {
      let cell = cells[position]
      if cell.tag == tag, cell.slot != Self.tombstone, isMatch(Int(cell.slot) - 1) {
        return Int(cell.slot) - 1
      }
      position = (position + 1) & mask
    }
    return nil
  }

  /// Adds a slot that is not in the set.
  mutating func insert(_ slot: Int, hash: Int) {
    if (used + 1) * 2 > cells.count { grow() }
    let mask = cells.count - 1
    var position = hash & mask
    while cells[position].slot != 0 { position = (position + 1) & mask }
    cells[position] = Cell(slot: UInt32(slot + 1), tag: UInt32(truncatingIfNeeded: hash >> 32))
    lowBits[position] = UInt32(truncatingIfNeeded: hash)
    used += 1
  }

  mutating func remove(_ slot: Int, hash: Int) {
    guard !cells.isEmpty else { return }
    let mask = cells.count - 1
    var position = hash & mask
    while cells[position].slot != 0 {
      if cells[position].slot == UInt32(slot + 1) {
        cells[position].slot = Self.tombstone
        return
      }
      position = (position + 1) & mask
    }
  }

  /// The lower halves of the hashes, needed to grow without asking for names.
  private var lowBits: [UInt32] = []

  private mutating func grow() {
    let live = cells.indices.filter { cells[$0].slot != 0 && cells[$0].slot != Self.tombstone }
    var capacity = 16
    while capacity < (live.count + 1) * 4 { capacity *= 2 }
    var newCells = [Cell](repeating: Cell(), count: capacity)
    var newLow = [UInt32](repeating: 0, count: capacity)
    for old in live {
      var position = Int(lowBits[old]) & (capacity - 1)
      while newCells[position].slot != 0 { position = (position + 1) & (capacity - 1) }
      newCells[position] = cells[old]
      newLow[position] = lowBits[old]
    }
    cells = newCells
    lowBits = newLow
    used = live.count
  }
}
