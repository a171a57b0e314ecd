import BackingTree

/// A node of the view: the slot of the node table that holds it. 1 is the root of the view.
///
/// The kernel knows the node by its nodeid, which is the same number except in an exported view (``DurableNodeID``).
package struct NodeID: Hashable, Sendable, ExpressibleByIntegerLiteral {
  @usableFromInline package let slot: UInt32

  @inlinable package init(_ slot: UInt32) { self.slot = slot }
  @inlinable package init(integerLiteral slot: UInt32) { self.slot = slot }

  @inlinable package func hash(into hasher: inout Hasher) { hasher.combine(slot) }
  /// Sets and dictionaries by node are many, and SipHash costs more than the rest of a look-up. (``NumberKey``)
  @inlinable package func _rawHashValue(seed: Int) -> Int {
    KeyedHash.hash(UInt64(slot), UInt64(bitPattern: Int64(seed)))
  }
}
