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
  var localized: [Slot: LocalizedClaim] = [:]
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
  var localizedRungs: [Int: Int] = [:]

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
    let nameHash = hash(of: realName.bytes.span)
    guard let slot = realNames.find(hash: nameHash, where: { realNameEquals($0, realName.bytes.span) }) else {
      return
    }
    version += 1
    retract(slot)
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

  /// Releases memory that was reserved in vain: most file systems report for a directory the largest size that it has had.
  mutating func releaseUnusedMemory() {
    if records.capacity / 4 > records.count { records = ContiguousArray(records.lazy.map { $0 }) }
    if bytes.capacity / 4 > bytes.count { bytes = bytes.map { $0 } }
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
