/// Values by node: an open-addressed table.
///
/// A dictionary would hash each number with SipHash, which takes longer than the rest of the look-up, and every request looks
/// several things up by node. The daemon itself chooses the numbers of nodes, the lowest free one first, so a multiplication
/// spreads them well.
struct NodeMap<Value> {
  /// 0, which no node has, marks an empty cell. A power of two of cells, at most half of them in use; none before the first
  /// value.
  private var ids: ContiguousArray<NodeID> = []
  private var values: ContiguousArray<Value?> = []
  private(set) var count = 0

  init() {}

  var isEmpty: Bool { count == 0 }

  var all: [(id: NodeID, value: Value)] { map { (id: $0, value: $1) } }

  func map<Result>(_ transform: (NodeID, Value) -> Result) -> [Result] {
    ids.indices.compactMap { cell in values[cell].map { transform(ids[cell], $0) } }
  }

  subscript(id: NodeID) -> Value? { cell(of: id).flatMap { values[$0] } }

  /// Calls `body` with the value of a node, in place; returns nil where the node has none.
  mutating func withValue<Result>(of id: NodeID, _ body: (inout Value) -> Result) -> Result? {
    cell(of: id).map { body(&values[$0]!) }
  }

  /// - Returns: the value that is replaced.
  @discardableResult
  mutating func insert(_ value: Value, for id: NodeID) -> Value? {
    if (count + 1) * 2 > ids.count { resize() }
    let cell = firstCell(of: id)
    defer { values[cell] = value }
    if ids[cell] == id { return values[cell] }
    ids[cell] = id
    count += 1
    return nil
  }

  @discardableResult
  mutating func remove(_ id: NodeID) -> Value? {
    guard var hole = cell(of: id) else { return nil }
    let removed = values[hole].take()
    // Later cells of the same run move up, so that a look-up need not pass cells of removed nodes.
    var next = (hole + 1) & mask
    while ids[next] != 0 {
      if (next - home(of: ids[next])) & mask >= (next - hole) & mask {
        ids[hole] = ids[next]
        values[hole] = values[next].take()
        hole = next
      }
      next = (next + 1) & mask
    }
    ids[hole] = 0
    count -= 1
    return removed
  }

  private var mask: Int { ids.count - 1 }

  private func home(of id: NodeID) -> Int {
    Int(truncatingIfNeeded: (UInt64(id.slot) &* 0x9e37_79b9_7f4a_7c15) >> 32) & mask
  }

  private func cell(of id: NodeID) -> Int? {
    if id == 0 || ids.isEmpty { return nil }
    let cell = firstCell(of: id)
    return ids[cell] == id ? cell : nil
  }

  /// The cell of a node, or the empty one for it.
  private func firstCell(of id: NodeID) -> Int {
    var cell = home(of: id)
    while ids[cell] != id, ids[cell] != 0 { cell = (cell + 1) & mask }
    return cell
  }

  private mutating func resize() {
    let old = all
    let capacity = max(8, ids.count * 2)
    ids = ContiguousArray(repeating: 0, count: capacity)
    values = ContiguousArray(repeating: nil, count: capacity)
    for (id, value) in old {
      let cell = firstCell(of: id)
      ids[cell] = id
      values[cell] = value
    }
  }
}
