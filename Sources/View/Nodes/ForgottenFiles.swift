import BackingTree

/// In which directories files are that the kernel has forgotten. A file handle leads to the file, but not to its name.
///
/// Only a hint: the directory is searched for the file before anything is done with it. 16 bytes for each file, at most 64 MiB.
/// Where two inode numbers collide, the later file takes the cell, and the other has to be searched for in the whole tree.
struct ForgottenFiles {
  private struct Cell {
    var inode: UInt64 = 0
    var directory = DurableNodeID(rawValue: 0)
  }

  private static let mostCells = 1 << 22
  private var cells: ContiguousArray<Cell> = []
  private var used = 0

  mutating func insert(_ inode: UInt64, in directory: DurableNodeID) {
    if used * 2 >= cells.count, cells.count < Self.mostCells { grow() }
    let cell = index(of: inode)
    if cells[cell].inode == 0 { used += 1 }
    cells[cell] = Cell(inode: inode, directory: directory)
  }

  func directory(of inode: UInt64) -> DurableNodeID? {
    guard !cells.isEmpty else { return nil }
    let cell = cells[index(of: inode)]
    return cell.inode == inode ? cell.directory : nil
  }

  private mutating func grow() {
    let old = cells
    cells = ContiguousArray(repeating: Cell(), count: max(1024, old.count * 2))
    used = 0
    for cell in old where cell.inode != 0 {
      let new = index(of: cell.inode)
      if cells[new].inode == 0 { used += 1 }
      cells[new] = cell
    }
  }

  private func index(of inode: UInt64) -> Int {
    // Twice: with some keys, one multiplication gives many consecutive numbers the same cell.
    KeyedHash.hash(UInt64(bitPattern: Int64(KeyedHash.hash(inode, 0))), 0) & (cells.count - 1)
  }
}
