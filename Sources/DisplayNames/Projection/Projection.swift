import Glibc

/// The projection: the names of a directory's entries in the view.
///
/// A child has a list of candidate names, its rungs: its localized name, its name without the extension, its composed real name
/// where the real name is decomposed, its real name. It is listed under its first uncontested rung. A name is contested for a
/// child when it is the real name of another child (listed or not), or when another child claims it too. A child claims its first
/// rung. When that rung is contested, the child also claims the next one and keeps the first claim, so that all members of a
/// clashing group fall back together. A composed real name is claimed in any case: it is the real name as others type it. The
/// result is the least fixed point of a rule that only adds claims: it depends only on the set of children and not on the order in
/// which they were added.
///
/// Changing one child costs O(1), whatever the size of the directory. Only the rungs of localized children, which are few, are
/// recomputed when a change touches one of them.
///
/// A child keeps its slot while it lives, so a slot is a stable position in a listing. The type is not copyable: a copy would
/// duplicate all tables, and is never needed.
public struct Projection: ~Copyable, Sendable {
  /// The input of the projection for one child.
  public struct Child: Sendable, Equatable {
    public var realName: Name
    public var kind: EntryKind
    public var inode: UInt64
    /// The type in a directory entry (`d_type`); 0 when not known.
    public var entryType: UInt8
    /// The reason why the child is not listed; nil when it is listed.
    public var hidden: HiddenReason?
    /// The localized name, already validated; nil when there is none or it equals the real name.
    public var localized: Name?
    /// The length in bytes of the real name without its extension, when the extension is hidden; nil when it is shown.
    public var stemLength: Int?

    public init(
      realName: Name, kind: EntryKind, inode: UInt64, entryType: UInt8 = 0, hidden: HiddenReason? = nil,
      localized: Name? = nil, stemLength: Int? = nil
    ) {
      self.entryType = entryType
      self.realName = realName
      self.kind = kind
      self.inode = inode
      self.hidden = hidden
      self.localized = localized
      self.stemLength = stemLength
    }
  }

  /// The index of a child, from 0. It does not change while the child lives and may be reused afterwards.
  public typealias Slot = Int

  /// The rung under which a child is listed.
  public enum Rung: Sendable, Equatable { case localized, extensionHidden, composed, realName }

  /// The result of looking a name up in this directory.
  public struct Resolution: Sendable, Equatable {
    public let slot: Slot
    /// Whether the name is the child's display name, which may equal its real name.
    public let byDisplayName: Bool
    /// Whether the name has other bytes than both and is only equal to one of them by ``Projection/matching``.
    public var isMatch = false
  }

  struct Record: Equatable {
    var nameOffset: UInt32
    var nameLength: UInt16
    /// 0 when no extension is hidden: a stem is never empty.
    var stemLength: UInt16
    var entryType: UInt8
    var kind: EntryKind
    var hidden: HiddenReason?
    var isLive = true
    /// The length of the composed real name, which follows the real name in `bytes`; 0 where there is none.
    var composedLength: UInt16 = 0
    /// The length of the composed real name without the extension that is hidden.
    var composedStemLength: UInt16 = 0
    var inode: UInt64

    init(
      nameOffset: Int, nameLength: Int, stemLength: Int?, entryType: UInt8, kind: EntryKind,
      hidden: HiddenReason?, inode: UInt64
    ) {
      // VFAT's 255 UTF-16 units are up to 765 bytes.
      precondition(nameLength <= UInt16.max, "no file system has longer names than directory entries can be")
      self.nameOffset = UInt32(nameOffset)
      self.nameLength = UInt16(nameLength)
      self.stemLength = UInt16(clamping: stemLength ?? 0)
      self.entryType = entryType
      self.kind = kind
      self.hidden = hidden
      self.inode = inode
    }
  }

  struct LocalizedClaim {
    var name: Name
    /// Whether the localized name is contested, so that the child claims the next rung too.
    var demoted: Bool
  }

  var bytes: [UInt8] = []
  private var wastedBytes = 0
  var records: ContiguousArray<Record> = []
  private var free: [Slot] = []
  var realNames = NameTable()
  var claims = ClaimTable()
  /// Whether any claimed name may also be claimed by another child or be its real name. While false, computing a display name
  /// needs no table look-up.
  var mayBeContested = false
  private(set) var localized: [Slot: LocalizedClaim] = [:]
  /// How names are compared that no child has.
  public private(set) var matching: NameMatching
  /// Whether decomposed names are shown composed.
  public private(set) var composes: Bool
  /// The listed children by the shared forms of their real names, and of the display names under which they are listed, unless a
  /// name is that form itself. So with `canonical` a directory of composed names, which nearly all are, has none. They are
  /// counted, because any number of names may have one form. A child is counted once for a form.
  var shownForms = ClaimTable()
  /// The same of the real names of hidden children.
  var hiddenForms = ClaimTable()
  /// The hashes of all rungs of localized children, with use counts. A change that touches none of them leaves their rungs as
  /// they are.
  private var localizedRungs: [Int: Int] = [:]

  public init(matching: NameMatching = .exact, composes: Bool = false) {
    self.matching = matching
    self.composes = composes
  }

  /// Incremented with each change. A reader that has listed the children can compare it to detect whether the listing is still
  /// valid.
  public internal(set) var version: UInt64 = 0

  /// The number of children, including hidden ones.
  public var count: Int { records.count - free.count }

  /// The upper bound of all slots. Slots of removed children below it are dead.
  public var slotLimit: Int { records.count }

  // MARK: Updates

  /// Adds a child, or replaces the data of the child with that real name, which keeps its slot.
  @discardableResult
  public mutating func upsert(_ child: Child) -> Slot {
    upsert(
      child.realName.bytes.span, kind: child.kind, inode: child.inode, entryType: child.entryType,
      hidden: child.hidden, stemLength: child.stemLength, localized: child.localized)
  }

  /// The same for a name given as bytes, without a `Child`: used to add the entries of directories with up to a million entries.
  @discardableResult
  public mutating func upsert(
    _ realName: Span<UInt8>, kind: EntryKind, inode: UInt64, entryType: UInt8, hidden: HiddenReason?,
    stemLength: Int?, localized localizedName: Name? = nil
  ) -> Slot {
    let nameHash = hash(of: realName)
    var record = Record(
      nameOffset: bytes.count, nameLength: realName.count, stemLength: stemLength, entryType: entryType,
      kind: kind, hidden: hidden, inode: inode)
    let normalized = normalized(realName)
    let composed = hidden == nil && composes ? record.compose(realName, to: normalized) : nil
    // A localized name equal to the name of the next rung is not counted as localized.
    let isComposed =
      localizedName != nil
      && composed.map {
        localizedName!.bytes == (stemLength == nil ? $0 : Array($0.prefix(Int(record.composedStemLength))))
      } ?? false
    let localizedName = isComposed ? nil : localizedName
    if let slot = realNames.find(hash: nameHash, where: { realNameEquals($0, realName) }) {
      let old = records[slot]
      record.nameOffset = old.nameOffset
      if old == record,
        localized.isEmpty && localizedName == nil || localized[slot]?.name == localizedName
      {
        return slot
      }
      version += 1
      retract(slot)
      let form = (old.hidden == nil) == (hidden == nil) ? nil : formHash(of: realName, normalized: normalized)
      removeForm(form, ofRealNameAt: slot)
      if let composed, old.composedLength == 0 {
        record.nameOffset = UInt32(bytes.count)
        realName.withUnsafeBytes { bytes.append(contentsOf: $0) }
        bytes += composed
        wastedBytes += Int(old.nameLength)
      } else if composed == nil {
        wastedBytes += Int(old.composedLength)
      }
      records[slot] = record
      addForm(form, ofRealNameAt: slot)
      claim(slot, localizedName: localizedName)
      return slot
    }
    version += 1
    realName.withUnsafeBytes { bytes.append(contentsOf: $0) }
    if let composed { bytes += composed }
    let slot: Slot
    if let reused = free.popLast() {
      slot = reused
      records[slot] = record
    } else {
      slot = records.count
      records.append(record)
    }
    let isClaimed = claims.count(hash: nameHash) > 0
    let contest = isClaimed ? contest(for: realName, hash: nameHash) : nil
    realNames.insert(slot, hash: nameHash)
    settle(contest)
    addForm(formHash(of: realName, normalized: normalized), ofRealNameAt: slot)
    if isClaimed { mayBeContested = true }
    if !localizedRungs.isEmpty, localizedRungs[nameHash] != nil {
      recomputeLocalized()
    }
    claim(slot, localizedName: localizedName)
    return slot
  }

  /// Removes the child with that real name, if there is one.
  public mutating func remove(realName: Name) {
    guard let slot = slot(realName: realName.bytes.span) else { return }
    version += 1
    retract(slot)
    let nameHash = hash(of: realName.bytes.span)
    let isClaimed = claims.count(hash: nameHash) > 0
    let contest = isClaimed ? contest(for: realName.bytes.span, hash: nameHash) : nil
    realNames.remove(slot, hash: nameHash)
    settle(contest)
    removeForm(sharedFormHash(of: realName.bytes.span), ofRealNameAt: slot)
    discard(slot)
    if !localizedRungs.isEmpty, localizedRungs[nameHash] != nil { recomputeLocalized() }
    if wastedBytes > 65536, wastedBytes > bytes.count / 2 { compact() }
  }

  /// Frees the slot of a child that is in no table: one that was removed, or a duplicate.
  mutating func discard(_ slot: Slot) {
    records[slot].isLive = false
    wastedBytes += Int(records[slot].nameLength) + Int(records[slot].composedLength)
    free.append(slot)
  }

  // MARK: Queries

  /// Looks a name up: display names and real names.
  public func resolve(_ name: Span<UInt8>) -> Resolution? {
    let nameHash = hash(of: name)
    if let slot = realNames.find(hash: nameHash, where: { realNameEquals($0, name) }) {
      return Resolution(slot: slot, byDisplayName: records[slot].hidden == nil && rung(of: slot) == .realName)
    }
    guard let slot = claims.onlyClaimant(hash: nameHash), records[slot].isLive, records[slot].hidden == nil
    else {
      return nil
    }
    switch rung(of: slot) {
    case .localized:
      guard let claimed = localized[slot], equal(claimed.name.bytes.span, name) else { return nil }
    case .extensionHidden:
      guard equal(bytes.span.extracting(stemRange(slot)), name) else { return nil }
    case .composed:
      guard equal(bytes.span.extracting(composedRange(slot)), name) else { return nil }
    case .realName: return nil
    }
    return Resolution(slot: slot, byDisplayName: true)
  }

  /// The slot of the child with that real name.
  public func slot(realName: Span<UInt8>) -> Slot? {
    realNames.find(hash: hash(of: realName), where: { realNameEquals($0, realName) })
  }

  /// Whether a child claims the name as a display name other than its real name, contested or not.
  public func isClaimed(_ name: Span<UInt8>) -> Bool { claims.count(hash: hash(of: name)) > 0 }

  /// The data of the child in a slot; nil when the slot is dead.
  public func child(at slot: Slot) -> Child? {
    guard slot < records.count, records[slot].isLive else { return nil }
    let record = records[slot]
    return Child(
      realName: realName(at: slot), kind: record.kind, inode: record.inode, entryType: record.entryType,
      hidden: record.hidden,
      localized: localized[slot]?.name, stemLength: record.stemLength == 0 ? nil : Int(record.stemLength))
  }

  public func realName(at slot: Slot) -> Name {
    let record = records[slot]
    return Name(bytes[Int(record.nameOffset)..<Int(record.nameOffset) + Int(record.nameLength)])
  }

  /// Calls `body` with the real name's bytes, without copying them.
  public func withRealName<R>(at slot: Slot, _ body: (UnsafeRawBufferPointer) -> R) -> R {
    bytes.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[range(slot)])) }
  }

  /// The data that a listing contains for a child besides its name.
  public struct Summary: Sendable {
    public let kind: EntryKind
    public let entryType: UInt8
    public let inode: UInt64
    public let isHidden: Bool
  }

  /// The summary of the child in a slot; nil when the slot is dead.
  public func summary(at slot: Slot) -> Summary? {
    guard slot < records.count, records[slot].isLive else { return nil }
    let record = records[slot]
    return Summary(
      kind: record.kind, entryType: record.entryType, inode: record.inode, isHidden: record.hidden != nil)
  }

  /// The display name of the child in a live slot; for a hidden child, its real name.
  public func displayName(at slot: Slot) -> Name {
    withDisplayName(at: slot) { Name($0) }
  }

  /// Calls `body` with the display name's bytes, without copying them.
  public func withDisplayName<R>(at slot: Slot, _ body: (UnsafeBufferPointer<UInt8>) -> R) -> R {
    let shown: Range<Int>
    switch rung(of: slot) {
    case .localized: return localized[slot]!.name.bytes.withUnsafeBufferPointer(body)
    case .extensionHidden: shown = stemRange(slot)
    case .composed: shown = composedRange(slot)
    case .realName: shown = range(slot)
    }
    return bytes.withUnsafeBufferPointer { body(UnsafeBufferPointer(rebasing: $0[shown])) }
  }

  /// The other children whose display name may change when one child changes: those that share a rung with it, before or after
  /// the change.
  ///
  /// - Parameters:
  ///   - realName: the child's real name; the child need not exist yet.
  ///   - future: the child's data after the change; nil when it is about to be removed.
  public func rivals(of realName: Name, becoming future: Child?) -> Set<Slot> {
    var rivals = localized.isEmpty ? [] : Set(localized.keys)
    let slot = slot(realName: realName.bytes.span)
    func add(_ name: Span<UInt8>) {
      let hash = hash(of: name)
      let isClaimant = slot.map { self.isClaimant($0, of: hash) } ?? false
      if let other = claims.onlyOther(than: slot, isClaimant: isClaimant, hash: hash) {
        rivals.insert(other)
      }
    }
    let composed = composes ? NormalForm.composed(realName.bytes.span) : nil
    /// - Parameter stemLength: 0 where no extension is hidden.
    func add(_ localized: Name?, stemLength: Int) {
      if let localized { add(localized.bytes.span) }
      if let composed {
        if stemLength > 0 { add(Name(realName.bytes.prefix(stemLength)).composed.bytes.span) }
        add(composed.span)
      } else if stemLength > 0 {
        add(realName.bytes.span.extracting(0..<stemLength))
      }
    }
    add(realName.bytes.span)
    if let slot, records[slot].hidden == nil {
      let name = localized.isEmpty ? nil : localized[slot]?.name
      add(name, stemLength: Int(records[slot].stemLength))
    }
    if let future, future.hidden == nil { add(future.localized, stemLength: future.stemLength ?? 0) }
    if let slot { rivals.remove(slot) }
    return rivals
  }

  /// Whether a child claims the name with that hash.
  private func isClaimant(_ slot: Slot, of hash: Int) -> Bool {
    if records[slot].hidden != nil { return false }
    let claimed = localized.isEmpty ? nil : localized[slot]
    if composedHash(of: slot, claimed?.name) == hash { return true }
    if let claimed {
      if self.hash(of: claimed.name.bytes.span) == hash { return true }
      if !claimed.demoted { return false }
    }
    return stemHash(of: slot) == hash
  }

  /// The rung of the child in a live slot; `realName` for a hidden child.
  public func rung(of slot: Slot) -> Rung {
    let record = records[slot]
    if record.hidden != nil { return .realName }
    if !localized.isEmpty, let claimed = localized[slot], !claimed.demoted { return .localized }
    if record.stemLength > 0 {
      if !mayBeContested { return .extensionHidden }
      let stem = bytes.span.extracting(stemRange(slot))
      if !isContested(stem, hash: hash(of: stem), for: slot) { return .extensionHidden }
    }
    if record.composedLength > 0 {
      if !mayBeContested { return .composed }
      let composed = bytes.span.extracting(composedRange(slot))
      if !isContested(composed, hash: hash(of: composed), for: slot) { return .composed }
    }
    return .realName
  }

  // MARK: Claims

  private mutating func claim(_ slot: Slot, localizedName: Name?) {
    let record = records[slot]
    guard record.hidden == nil else { return }
    var touched = localizedName != nil
    if let localizedName {
      localized[slot] = LocalizedClaim(name: localizedName, demoted: false)
      let nameHash = hash(of: localizedName.bytes.span)
      addClaim(slot, on: localizedName.bytes.span, hash: nameHash)
      localizedRungs[nameHash, default: 0] += 1
    }
    if let composedHash = composedHash(of: slot, localizedName) {
      // No match is found by this claim, only by the real name. But it may contest another's.
      if claims.count(hash: composedHash) > 0 {
        addClaim(slot, in: composedRange(slot), hash: composedHash)
      } else {
        countClaim(slot, in: composedRange(slot), hash: composedHash)
      }
      if !localizedRungs.isEmpty, localizedRungs[composedHash] != nil { touched = true }
    }
    if record.stemLength > 0 {
      let stemHash = hash(of: bytes.span.extracting(stemRange(slot)))
      if localizedName != nil {
        localizedRungs[stemHash, default: 0] += 1
      } else {
        addClaim(slot, in: stemRange(slot), hash: stemHash)
        if !localizedRungs.isEmpty, localizedRungs[stemHash] != nil { touched = true }
      }
    }
    if touched { recomputeLocalized() }
  }

  private mutating func addClaim(_ slot: Slot, on name: Span<UInt8>, hash: Int) {
    let contest = contest(for: name, hash: hash)
    let claimants = claims.add(slot, hash: hash)
    settle(contest)
    if mayBeContested { return }
    mayBeContested = claimants > 1 || realNames.find(hash: hash, where: { realNameEquals($0, name) }) != nil
  }

  /// Claims a name that is stored in `bytes`.
  private mutating func addClaim(_ slot: Slot, in range: Range<Int>, hash: Int) {
    let contest = contest(for: bytes.span.extracting(range), hash: hash)
    countClaim(slot, in: range, hash: hash)
    settle(contest)
  }

  /// The same without the shared form of the name.
  mutating func countClaim(_ slot: Slot, in range: Range<Int>, hash: Int) {
    let claimants = claims.add(slot, hash: hash)
    if mayBeContested { return }
    mayBeContested =
      claimants > 1
      || realNames.find(hash: hash, where: { realNameEquals($0, bytes.span.extracting(range)) }) != nil
  }

  private mutating func removeClaim(_ slot: Slot, in range: Range<Int>, hash: Int) {
    let contest = contest(for: bytes.span.extracting(range), hash: hash)
    claims.remove(slot, hash: hash)
    settle(contest)
  }

  private mutating func retract(_ slot: Slot) {
    let record = records[slot]
    guard record.hidden == nil else { return }
    var touched = false
    let stemHash = record.stemLength == 0 ? 0 : hash(of: bytes.span.extracting(stemRange(slot)))
    let composedHash = composedHash(of: slot, localized[slot]?.name)
    if let claimed = localized[slot] {
      let nameHash = hash(of: claimed.name.bytes.span)
      let contest = contest(for: claimed.name.bytes.span, hash: nameHash)
      claims.remove(slot, hash: nameHash)
      settle(contest)
      leaveRung(nameHash)
      if record.stemLength > 0 {
        if claimed.demoted { removeClaim(slot, in: stemRange(slot), hash: stemHash) }
        leaveRung(stemHash)
      }
      localized[slot] = nil
      touched = true
    } else if record.stemLength > 0 {
      removeClaim(slot, in: stemRange(slot), hash: stemHash)
      touched = !localizedRungs.isEmpty && localizedRungs[stemHash] != nil
    }
    if let composedHash {
      if claims.count(hash: composedHash) > 1 {
        removeClaim(slot, in: composedRange(slot), hash: composedHash)
      } else {
        claims.remove(slot, hash: composedHash)
      }
      if !localizedRungs.isEmpty, localizedRungs[composedHash] != nil { touched = true }
    }
    if touched { recomputeLocalized() }
  }

  private mutating func leaveRung(_ hash: Int) {
    if let uses = localizedRungs[hash] { localizedRungs[hash] = uses == 1 ? nil : uses - 1 }
  }

  /// Recomputes the rungs of all localized children: withdraws every second claim, then adds claims until a fixed point is
  /// reached.
  private mutating func recomputeLocalized() {
    for slot in Array(localized.keys) where localized[slot]!.demoted {
      localized[slot]!.demoted = false
      if let stemHash = stemHash(of: slot) { removeClaim(slot, in: stemRange(slot), hash: stemHash) }
    }
    var changed = true
    while changed {
      changed = false
      for (slot, claimed) in localized where !claimed.demoted {
        guard isContested(claimed.name.bytes.span, hash: hash(of: claimed.name.bytes.span), for: slot) else {
          continue
        }
        localized[slot]!.demoted = true
        if let stemHash = stemHash(of: slot) { addClaim(slot, in: stemRange(slot), hash: stemHash) }
        changed = true
      }
    }
  }

  private func stemHash(of slot: Slot) -> Int? {
    let length = Int(records[slot].stemLength)
    return length == 0 ? nil : hash(of: bytes.span.extracting(stemRange(slot)))
  }

  /// The hash of the claim on the composed real name. Nil where there is none, or the localized name is the same: a child claims
  /// a name once.
  private func composedHash(of slot: Slot, _ localizedName: Name?) -> Int? {
    if records[slot].composedLength == 0 { return nil }
    let composed = bytes.span.extracting(composedRange(slot))
    return localizedName.map { equal($0.bytes.span, composed) } ?? false ? nil : hash(of: composed)
  }

  private func isContested(_ name: Span<UInt8>, hash nameHash: Int, for slot: Slot) -> Bool {
    guard mayBeContested else { return false }
    if claims.count(hash: nameHash) > 1 { return true }
    guard let owner = realNames.find(hash: nameHash, where: { realNameEquals($0, name) }) else {
      return false
    }
    return owner != slot
  }

  // MARK: Bytes

  /// The range in `bytes` of the real name's first `length` bytes, or of the whole name if nil.
  func range(_ slot: Slot, _ length: Int? = nil) -> Range<Int> {
    let start = Int(records[slot].nameOffset)
    return start..<start + (length ?? Int(records[slot].nameLength))
  }

  /// The range of the name without its extension, composed where the real name is shown composed.
  func stemRange(_ slot: Slot) -> Range<Int> {
    guard records[slot].composedLength > 0 else { return range(slot, Int(records[slot].stemLength)) }
    return composedRange(slot).prefix(Int(records[slot].composedStemLength))
  }

  func composedRange(_ slot: Slot) -> Range<Int> {
    let start = range(slot).upperBound
    return start..<start + Int(records[slot].composedLength)
  }

  func realNameEquals(_ slot: Slot, _ name: Span<UInt8>) -> Bool {
    equal(bytes.span.extracting(range(slot)), name)
  }

  func equal(_ a: Span<UInt8>, _ b: Span<UInt8>) -> Bool {
    guard a.count == b.count else { return false }
    return a.withUnsafeBytes { left in
      b.withUnsafeBytes { right in
        guard let left = left.baseAddress, let right = right.baseAddress else { return true }
        return memcmp(left, right, a.count) == 0
      }
    }
  }

  func hash(of name: Span<UInt8>) -> Int { NameHash.hash(of: name) }

  /// Shows and compares names by other rules from now on. Each child has to be given again (``upsert(_:)``).
  public mutating func change(matching: NameMatching, composes: Bool) {
    self.composes = composes
    guard matching != self.matching else { return }
    self.matching = matching
    rebuildSharedForms()
  }

  private mutating func compact() {
    var packed: [UInt8] = []
    packed.reserveCapacity(bytes.count - wastedBytes)
    for slot in records.indices where records[slot].isLive {
      let start = Int(records[slot].nameOffset)
      records[slot].nameOffset = UInt32(packed.count)
      let length = Int(records[slot].nameLength) + Int(records[slot].composedLength)
      packed.append(contentsOf: bytes[start..<start + length])
    }
    bytes = packed
    wastedBytes = 0
  }
}
