/// A node of the view: the slot of the node table that holds it. 1 is the root of the view.
///
/// The kernel knows the node by its nodeid, which is the same number except in an exported view (``DurableNodeID``).
package struct NodeID: Hashable, Sendable, ExpressibleByIntegerLiteral {
  package let slot: UInt32

  @inlinable package init(_ slot: UInt32) { self.slot = slot }
  @inlinable package init(integerLiteral slot: UInt32) { self.slot = slot }
}
