/// An open-addressed set of slots, looked up by the hash of a name that the caller stores. No two slots have the same name: the
/// cells of equal hashes form one row, which each insertion would walk.
///
/// Eight bytes per cell, at most half of the cells in use. A directory of a million entries has one of these tables; a dictionary
/// keyed by name would store every name twice.
struct NameTable: Sendable {
  private struct Cell {
    /// The slot plus one; 0 marks an empty cell, `tombstone` a removed one.
    var slot: UInt32 = 0
    /// The upper half of the hash. Limits name comparisons to likely matches, and lets the table grow without access to the
    /// names. Its upper bits are the home position of the cell.
    var tag: UInt32 = 0

    var isLive: Bool { slot != 0 && slot != NameTable.tombstone }
  }

  fileprivate static let tombstone = UInt32.max
  private var cells: [Cell] = []
  /// The number of bits by which a tag is shifted right to get a position.
  private var shift: UInt32 = 32
  private var used = 0

  func find(hash: Int, where isMatch: (Int) -> Bool) -> Int? {
    guard !cells.isEmpty else { return nil }
    let mask = cells.count - 1
    let tag = Self.tag(hash)
    var position = Int(tag >> shift)
    while true {
      let cell = cells[position]
      if cell.slot == 0 { return nil }
      if cell.tag == tag, cell.slot != Self.tombstone, isMatch(Int(cell.slot) - 1) {
        return Int(cell.slot) - 1
      }
      position = (position + 1) & mask
    }
  }

  /// Makes room for `count` slots.
  mutating func reserve(_ count: Int) {
    if count * 2 > cells.count { grow(for: count) }
  }

  /// Adds a slot. It must not be in the set.
  mutating func insert(_ slot: Int, hash: Int) {
    if (used + 1) * 2 > cells.count { grow(for: (cells.lazy.filter(\.isLive).count + 1) * 3 / 2) }
    put(Cell(slot: UInt32(slot + 1), tag: Self.tag(hash)))
    used += 1
  }

  mutating func remove(_ slot: Int, hash: Int) {
    guard !cells.isEmpty else { return }
    let mask = cells.count - 1
    let tag = Self.tag(hash)
    var position = Int(tag >> shift)
    while cells[position].slot != 0 {
      if cells[position].slot == UInt32(slot + 1), cells[position].tag == tag {
        cells[position].slot = Self.tombstone
        return
      }
      position = (position + 1) & mask
    }
  }

  private static func tag(_ hash: Int) -> UInt32 { UInt32(truncatingIfNeeded: hash >> 32) }

  /// Stores a cell in the first empty position from its home position on.
  private mutating func put(_ cell: Cell) {
    let mask = cells.count - 1
    var position = Int(cell.tag >> shift)
    while cells[position].slot != 0 { position = (position + 1) & mask }
    cells[position] = cell
  }

  /// Grows to at least twice as many cells as `count`.
  private mutating func grow(for count: Int) {
    var capacity = 16
    while capacity < count * 2 { capacity *= 2 }
    let old = cells
    cells = [Cell](repeating: Cell(), count: capacity)
    shift = 32 - UInt32(capacity.trailingZeroBitCount)
    used = 0
    for cell in old where cell.isLive {
      put(cell)
      used += 1
    }
  }
}
