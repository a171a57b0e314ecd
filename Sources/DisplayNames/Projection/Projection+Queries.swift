import Glibc

/// What the names of the directory stand for, and how its entries are shown.
extension Projection {
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

  /// The other children that may get another display name when one child changes: those that share a rung with it, before or
  /// after the change.
  ///
  /// - Parameters:
  ///   - realName: the child's real name; the child need not exist yet.
  ///   - future: the child's data after the change; nil when it is about to be removed.
  public func rivals(of realName: Name, becoming future: Child?) -> Set<Slot> {
    var rivals = localized.isEmpty ? [] : Set(localized.keys)
    let slot = slot(realName: realName.bytes.span)
    func add(_ name: Span<UInt8>) {
      let hash = hash(of: name)
      if claims.count(hash: hash) == 0 { return }
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
    if let slot, !rivals.isEmpty { rivals.remove(slot) }
    return rivals
  }

  /// Whether a child claims the name with that hash.
  func isClaimant(_ slot: Slot, of hash: Int) -> Bool {
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
}
