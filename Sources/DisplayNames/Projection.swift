/// The projection: which names a directory's entries have in the view.
///
/// A child's candidates are its rungs: its localized name, its name without the extension, its real name. It is
/// listed under the first rung that nobody contests. A name is contested for a child when another child (listed or
/// not) has it as its real name, or when another child claims it too. A child claims its first rung; when that one is
/// contested, it claims the next as well and never takes the first back, so a whole clashing group falls together.
/// This is the least fixed point of a rule that only ever adds claims: it depends on the set of children alone,
/// never on the order in which they came.
///
/// Changing one child costs O(1), whatever the size of the directory; only localized names, which are few, are
/// settled again when a change touches one of their rungs.
///
/// A child keeps its slot as long as it lives, so a slot is a stable position in a listing.
/// A copy would be one of all its tables; nobody needs one.
public struct Projection: ~Copyable, Sendable {
  /// What the projection must know of a child.
  public struct Child: Sendable, Equatable {
    public var realName: Name
    public var kind: EntryKind
    public var inode: UInt64
    /// Its type as a directory entry tells it (`d_type`); 0 when not known.
    public var entryType: UInt8
    /// Why it is not listed; nil when it is.
    public var hidden: HiddenReason?
    /// Its localized name, already checked; nil when it has none or has it as its real name.
    public var localized: Name?
    /// How many bytes of the real name are shown when its extension is hidden; nil when it is not.
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

  /// A child's place, from 0; it does not change while the child lives and may be used again afterwards.
  public typealias Slot = Int

  /// Which rung a child is listed under.
  public enum Rung: Sendable, Equatable { case localized, extensionHidden, realName }

  /// What a name stands for in this directory.
  public struct Resolution: Sendable, Equatable {
    public let slot: Slot
    /// Whether it is the child's display name (which may be its real name too).
    public let byDisplayName: Bool
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
    /// Its localized name is contested, so it claims the next rung too.
    var demoted: Bool
  }

  var bytes: [UInt8] = []
  private var wastedBytes = 0
  var records: ContiguousArray<Record> = []
  private var free: [Slot] = []
  var realNames = NameTable()
  var claims = ClaimTable()
  /// Whether somebody may claim what somebody else claims or has as a real name; until then no display name takes a look at
  /// the tables.
  var mayBeContested = false
  private var localized: [Slot: LocalizedClaim] = [:]
  /// The hashes of all rungs of localized children: a change that touches none of them cannot change their rungs.
  private var localizedRungs: [Int: Int] = [:]

  public init() {}

  /// Grows with each change, so that whoever has listed the children can tell whether the same would be listed again.
  public internal(set) var version: UInt64 = 0

  /// The number of children, hidden ones included.
  public var count: Int { records.count - free.count }

  /// All slots lie below this; those of removed children are dead.
  public var slotLimit: Int { records.count }

  // MARK: Changing

  /// Adds a child, or replaces what is known of the child with that real name, which keeps its slot.
  @discardableResult
  public mutating func upsert(_ child: Child) -> Slot {
    upsert(
      child.realName.bytes.span, kind: child.kind, inode: child.inode, entryType: child.entryType,
      hidden: child.hidden, stemLength: child.stemLength, localized: child.localized)
  }

  /// The same for a child of which only bytes are at hand: a directory of a million entries comes so.
  @discardableResult
  public mutating func upsert(
    _ realName: Span<UInt8>, kind: EntryKind, inode: UInt64, entryType: UInt8, hidden: HiddenReason?,
    stemLength: Int?, localized localizedName: Name? = nil
  ) -> Slot {
    let nameHash = hash(of: realName)
    var record = Record(
      nameOffset: bytes.count, nameLength: realName.count, stemLength: stemLength, entryType: entryType,
      kind: kind, hidden: hidden, inode: inode)
    if let slot = realNames.find(hash: nameHash, where: { realNameEquals($0, realName) }) {
      record.nameOffset = records[slot].nameOffset
      if records[slot] == record, localized.isEmpty && localizedName == nil || localized[slot]?.name == localizedName {
        return slot
      }
      version += 1
      retract(slot)
      records[slot] = record
      claim(slot, localizedName: localizedName)
      return slot
    }
    version += 1
    realName.withUnsafeBytes { bytes.append(contentsOf: $0) }
    let slot: Slot
    if let reused = free.popLast() {
      slot = reused
      records[slot] = record
    } else {
      slot = records.count
      records.append(record)
    }
    realNames.insert(slot, hash: nameHash)
    if claims.count(hash: nameHash) > 0 { mayBeContested = true }
    if !localizedRungs.isEmpty, localizedRungs[nameHash] != nil {
      settleLocalized()
    }
    claim(slot, localizedName: localizedName)
    return slot
  }

  /// Removes the child with that real name; nothing happens when there is none.
  public mutating func remove(realName: Name) {
    guard let slot = slot(realName: realName.bytes.span) else { return }
    version += 1
    retract(slot)
    let nameHash = hash(of: realName.bytes.span)
    realNames.remove(slot, hash: nameHash)
    discard(slot)
    if !localizedRungs.isEmpty, localizedRungs[nameHash] != nil { settleLocalized() }
    if wastedBytes > 65536, wastedBytes > bytes.count / 2 { compact() }
  }

  /// A child that is not to be found by any name yet turned out to be one that is there.
  mutating func discard(_ slot: Slot) {
    records[slot].isLive = false
    wastedBytes += Int(records[slot].nameLength)
    free.append(slot)
  }

  // MARK: Asking

  /// The child that a name stands for, by its display name or else by its real name.
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
    case .realName: return nil
    }
    return Resolution(slot: slot, byDisplayName: true)
  }

  /// The child with that real name.
  public func slot(realName: Span<UInt8>) -> Slot? {
    realNames.find(hash: hash(of: realName), where: { realNameEquals($0, realName) })
  }

  /// Whether a child is listed under that name, or would be if no other had it or wanted it: as what is not its real name.
  public func isClaimed(_ name: Span<UInt8>) -> Bool { claims.count(hash: hash(of: name)) > 0 }

  /// What is known of the child in a slot; nil when the slot is dead.
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

  /// Lends the real name's bytes without copying them.
  public func withRealName<R>(at slot: Slot, _ body: (UnsafeRawBufferPointer) -> R) -> R {
    bytes.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[range(slot)])) }
  }

  /// What a listing tells of a child besides its name.
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

  /// The name under which the child in a live slot is listed, were it listed.
  public func displayName(at slot: Slot) -> Name {
    switch rung(of: slot) {
    case .localized: localized[slot]!.name
    case .extensionHidden: Name(realName(at: slot).bytes.prefix(Int(records[slot].stemLength)))
    case .realName: realName(at: slot)
    }
  }

  /// Lends the display name's bytes without copying them.
  public func withDisplayName<R>(at slot: Slot, _ body: (UnsafeBufferPointer<UInt8>) -> R) -> R {
    let record = records[slot]
    let rung = rung(of: slot)
    switch rung {
    case .localized: return localized[slot]!.name.bytes.withUnsafeBufferPointer(body)
    case .extensionHidden, .realName:
      let length = rung == .realName ? Int(record.nameLength) : Int(record.stemLength)
      return bytes.withUnsafeBufferPointer {
        body(UnsafeBufferPointer(rebasing: $0[Int(record.nameOffset)..<Int(record.nameOffset) + length]))
      }
    }
  }

  /// The other children that may be listed under another name once what is known of one child changes: those that share
  /// a rung with it, before or after.
  ///
  /// - Parameters:
  ///   - realName: the child's real name, whether or not it is there yet.
  ///   - future: what will be known of it; nil when it is about to be removed.
  public func rivals(of realName: Name, becoming future: Child?) -> Set<Slot> {
    var rivals = Set(localized.keys)
    let slot = slot(realName: realName.bytes.span)
    let own = slot.map { claimedHashes(of: $0) } ?? []
    func add(_ name: Span<UInt8>) {
      let hash = hash(of: name)
      if let other = claims.onlyOther(than: slot, isClaimant: own.contains(hash), hash: hash) {
        rivals.insert(other)
      }
    }
    func add(_ child: Child) {
      guard child.hidden == nil else { return }
      if let name = child.localized { add(name.bytes.span) }
      if let length = child.stemLength { add(realName.bytes.span.extracting(0..<length)) }
    }
    add(realName.bytes.span)
    if let present = slot.flatMap({ child(at: $0) }) { add(present) }
    if let future { add(future) }
    if let slot { rivals.remove(slot) }
    return rivals
  }

  private func claimedHashes(of slot: Slot) -> [Int] {
    guard records[slot].hidden == nil else { return [] }
    let stem = stemHash(of: slot).map { [$0] } ?? []
    guard let claimed = localized[slot] else { return stem }
    return [hash(of: claimed.name.bytes.span)] + (claimed.demoted ? stem : [])
  }

  /// The rung under which the child in a live slot is listed, were it listed.
  public func rung(of slot: Slot) -> Rung {
    let record = records[slot]
    if record.hidden != nil { return .realName }
    if !localized.isEmpty, let claimed = localized[slot], !claimed.demoted { return .localized }
    if record.stemLength > 0 {
      if !mayBeContested { return .extensionHidden }
      let stem = bytes.span.extracting(stemRange(slot))
      if !isContested(stem, hash: hash(of: stem), for: slot) { return .extensionHidden }
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
    if record.stemLength > 0 {
      let stemHash = hash(of: bytes.span.extracting(stemRange(slot)))
      if localizedName != nil {
        localizedRungs[stemHash, default: 0] += 1
      } else {
        addStemClaim(slot, hash: stemHash)
        if !localizedRungs.isEmpty, localizedRungs[stemHash] != nil { touched = true }
      }
    }
    if touched { settleLocalized() }
  }

  mutating func addClaim(_ slot: Slot, on name: Span<UInt8>, hash: Int) {
    let claimants = claims.add(slot, hash: hash)
    if mayBeContested { return }
    mayBeContested = claimants > 1 || realNames.find(hash: hash, where: { realNameEquals($0, name) }) != nil
  }

  /// Claims the name that a child shows without its extension.
  mutating func addStemClaim(_ slot: Slot, hash: Int) {
    let claimants = claims.add(slot, hash: hash)
    if mayBeContested { return }
    mayBeContested =
      claimants > 1
      || realNames.find(
        hash: hash, where: { realNameEquals($0, bytes.span.extracting(stemRange(slot))) }) != nil
  }

  private mutating func retract(_ slot: Slot) {
    let record = records[slot]
    guard record.hidden == nil else { return }
    var touched = false
    let stemHash = record.stemLength == 0 ? 0 : hash(of: bytes.span.extracting(stemRange(slot)))
    if let claimed = localized.removeValue(forKey: slot) {
      let nameHash = hash(of: claimed.name.bytes.span)
      claims.remove(slot, hash: nameHash)
      leaveRung(nameHash)
      if record.stemLength > 0 {
        if claimed.demoted { claims.remove(slot, hash: stemHash) }
        leaveRung(stemHash)
      }
      touched = true
    } else if record.stemLength > 0 {
      claims.remove(slot, hash: stemHash)
      touched = !localizedRungs.isEmpty && localizedRungs[stemHash] != nil
    }
    if touched { settleLocalized() }
  }

  private mutating func leaveRung(_ hash: Int) {
    if let uses = localizedRungs[hash] { localizedRungs[hash] = uses == 1 ? nil : uses - 1 }
  }

  /// Finds the rungs of all localized children anew: take back every second claim, then add claims until none is owed.
  private mutating func settleLocalized() {
    for slot in Array(localized.keys) where localized[slot]!.demoted {
      localized[slot]!.demoted = false
      if let stemHash = stemHash(of: slot) { claims.remove(slot, hash: stemHash) }
    }
    var changed = true
    while changed {
      changed = false
      for (slot, claimed) in localized where !claimed.demoted {
        guard isContested(claimed.name.bytes.span, hash: hash(of: claimed.name.bytes.span), for: slot) else {
          continue
        }
        localized[slot]!.demoted = true
        if let stemHash = stemHash(of: slot) { addStemClaim(slot, hash: stemHash) }
        changed = true
      }
    }
  }

  private func stemHash(of slot: Slot) -> Int? {
    let length = Int(records[slot].stemLength)
    return length == 0 ? nil : hash(of: bytes.span.extracting(stemRange(slot)))
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

  /// Where the real name's first `length` bytes are, all of them if nil.
  func range(_ slot: Slot, _ length: Int? = nil) -> Range<Int> {
    let start = Int(records[slot].nameOffset)
    return start..<start + (length ?? Int(records[slot].nameLength))
  }

  func stemRange(_ slot: Slot) -> Range<Int> { range(slot, Int(records[slot].stemLength)) }

  func realNameEquals(_ slot: Slot, _ name: Span<UInt8>) -> Bool {
    equal(bytes.span.extracting(range(slot)), name)
  }

  private func equal(_ a: Span<UInt8>, _ b: Span<UInt8>) -> Bool {
    guard a.count == b.count else { return false }
    return a.withUnsafeBytes { left in b.withUnsafeBytes { right in left.elementsEqual(right) } }
  }

  func hash(of name: Span<UInt8>) -> Int { NameHash.hash(of: name) }

  private mutating func compact() {
    var packed: [UInt8] = []
    packed.reserveCapacity(bytes.count - wastedBytes)
    for slot in records.indices where records[slot].isLive {
      let start = Int(records[slot].nameOffset)
      records[slot].nameOffset = UInt32(packed.count)
      packed.append(contentsOf: bytes[start..<start + Int(records[slot].nameLength)])
    }
    bytes = packed
    wastedBytes = 0
  }
}
