/// Builds a projection of many children at once.
///
/// The tables of a large projection do not fit into the processor's caches, so inserting names in arbitrary order costs a cache
/// miss for each. Inserting them in the order of their hashes fills the tables from one end to the other.
public struct ProjectionFilling: ~Copyable {
  private struct HashedSlot {
    let hash: Int
    let slot: UInt32
  }

  private var projection: Projection
  private var names: [HashedSlot] = []
  private var stems: [HashedSlot] = []
  private var composed: [HashedSlot] = []
  private var realForms: [HashedSlot] = []
  private var stemForms: [HashedSlot] = []

  /// - Parameter count: the approximate number of children. The system provides memory for those that are added.
  public init(count: Int, matching: NameMatching = .exact, composes: Bool = false) {
    projection = Projection(matching: matching, composes: composes)
    projection.records.reserveCapacity(count)
    projection.bytes.reserveCapacity(32 * count)
    names.reserveCapacity(count)
    stems.reserveCapacity(count)
  }

  /// Adds a child that has no localized name.
  public mutating func add(
    _ realName: Span<UInt8>, kind: EntryKind, inode: UInt64, entryType: UInt8, hidden: HiddenReason?,
    stemLength: Int?
  ) {
    let slot = UInt32(projection.records.count)
    var record = Projection.Record(
      nameOffset: projection.bytes.count, nameLength: realName.count, stemLength: stemLength,
      entryType: entryType, kind: kind, hidden: hidden, inode: inode)
    let forms = Forms(of: realName, in: projection)
    let isShown = hidden == nil
    let shownComposed = isShown && projection.composes ? record.compose(realName, to: forms.composed) : nil
    projection.records.append(record)
    realName.withUnsafeBytes { projection.bytes.append(contentsOf: $0) }
    names.append(HashedSlot(hash: NameHash.hash(of: realName), slot: slot))
    if let form = forms.shared {
      realForms.append(HashedSlot(hash: NameHash.hash(of: form.span), slot: slot))
    }
    if let shownComposed {
      projection.bytes += shownComposed
      composed.append(HashedSlot(hash: NameHash.hash(of: shownComposed.span), slot: slot))
    }
    if let stemLength, isShown {
      let range = projection.stemRange(Int(slot))
      let hash = NameHash.hash(of: projection.bytes.span.extracting(range))
      stems.append(HashedSlot(hash: hash, slot: slot))
      let form = forms.hash(
        ofStem: projection.bytes.span.extracting(range), extension: realName.extracting(stemLength...),
        in: projection)
      if let form { stemForms.append(HashedSlot(hash: form, slot: slot)) }
    }
  }

  /// The normalized forms of a real name, each made once.
  private struct Forms {
    /// Nil for those that are the name itself, and those that nothing needs.
    let composed: [UInt8]?
    let shared: [UInt8]?

    init(of realName: Span<UInt8>, in projection: borrowing Projection) {
      composed = projection.normalized(realName)
      switch projection.matching {
      case .exact: shared = nil
      case .canonical: shared = composed
      case .caseless: shared = NormalForm.caseless(realName)
      }
    }

    /// The hash of the shared form of a name without its extension; nil if that is the name itself. It is the beginning of the
    /// real name's form, because a period neither composes nor changes, and ASCII keeps its length.
    func hash(ofStem stem: Span<UInt8>, extension ending: Span<UInt8>, in projection: borrowing Projection)
      -> Int?
    {
      guard ending.isASCII else { return projection.sharedFormHash(of: stem) }
      guard let shared else { return nil }
      let form = shared.span.extracting(0..<shared.count - ending.count)
      return projection.equal(form, stem) ? nil : NameHash.hash(of: form)
    }
  }

  public consuming func finish() -> Projection {
    projection.realNames.reserve(names.count)
    projection.claims.reserve(stems.count + composed.count)
    projection.shownForms.reserve(realForms.count + stemForms.count)
    var again: Set<Projection.Slot> = []
    for name in Self.inOrder(names) {
      let slot = Int(name.slot)
      // A directory that changes while it is read may return an entry twice.
      let known = projection.realNames.find(hash: name.hash) {
        projection.realNameEquals($0, projection.bytes.span.extracting(projection.range(slot)))
      }
      if known == nil {
        projection.realNames.insert(slot, hash: name.hash)
      } else {
        projection.discard(slot)
        again.insert(slot)
      }
    }
    for stem in Self.inOrder(stems) where again.isEmpty || !again.contains(Int(stem.slot)) {
      projection.countClaim(Int(stem.slot), hash: stem.hash) { $0.stemRange($1) }
    }
    for name in Self.inOrder(composed) where again.isEmpty || !again.contains(Int(name.slot)) {
      projection.countClaim(Int(name.slot), hash: name.hash) { $0.composedRange($1) }
    }
    for form in Self.inOrder(realForms) where again.isEmpty || !again.contains(Int(form.slot)) {
      projection.addForm(form.hash, ofRealNameAt: Int(form.slot))
    }
    for form in Self.inOrder(stemForms) where again.isEmpty || !again.contains(Int(form.slot)) {
      let slot = Int(form.slot)
      if projection.rung(of: slot) == .extensionHidden { projection.shownForms.add(slot, hash: form.hash) }
    }
    projection.version += 1
    projection.releaseUnusedMemory()
    return projection
  }

  /// Sorts by the upper bits of the hashes, which correspond to partitions of a table.
  private static func inOrder(_ hashedSlots: [HashedSlot]) -> [HashedSlot] {
    let bits = 8
    guard hashedSlots.count > 1 << (bits + 4) else { return hashedSlots }
    func part(_ hashedSlot: HashedSlot) -> Int {
      Int(UInt(bitPattern: hashedSlot.hash) >> UInt(Int.bitWidth - bits))
    }
    var next = [Int](repeating: 0, count: 1 << bits + 1)
    for hashedSlot in hashedSlots { next[part(hashedSlot) + 1] += 1 }
    for index in 1...1 << bits { next[index] += next[index - 1] }
    return [HashedSlot](unsafeUninitializedCapacity: hashedSlots.count) { ordered, count in
      for hashedSlot in hashedSlots {
        ordered.initializeElement(at: next[part(hashedSlot)], to: hashedSlot)
        next[part(hashedSlot)] += 1
      }
      count = hashedSlots.count
    }
  }
}
