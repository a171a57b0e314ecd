import Glibc

/// Which entries want which display names. An entry is shown under a name that no other entry claims.
extension Projection {
  mutating func claim(_ slot: Slot, localizedName: Name?) {
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
        countClaim(slot, hash: composedHash) { $0.composedRange($1) }
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

  mutating func addClaim(_ slot: Slot, on name: Span<UInt8>, hash: Int) {
    let contest = contest(for: name, hash: hash)
    let claimants = claims.add(slot, hash: hash)
    settle(contest)
    if mayBeContested { return }
    mayBeContested = claimants > 1 || realNames.find(hash: hash, where: { realNameEquals($0, name) }) != nil
  }

  /// Claims a name that is stored in `bytes`.
  mutating func addClaim(_ slot: Slot, in range: Range<Int>, hash: Int) {
    let contest = contest(for: bytes.span.extracting(range), hash: hash)
    countClaim(slot, hash: hash) { (_, _) in range }
    settle(contest)
  }

  /// The same without the shared form of the name.
  ///
  /// - Parameter range: where the name is stored in `bytes`. A closure, because only a real name with the same hash is compared
  /// with it, and the record of a slot is seldom in the processor's caches.
  mutating func countClaim(_ slot: Slot, hash: Int, in range: (borrowing Projection, Slot) -> Range<Int>) {
    let claimants = claims.add(slot, hash: hash)
    if mayBeContested { return }
    let namesake = realNames.find(hash: hash) {
      realNameEquals($0, bytes.span.extracting(range(self, slot)))
    }
    mayBeContested = claimants > 1 || namesake != nil
  }

  mutating func removeClaim(_ slot: Slot, in range: Range<Int>, hash: Int) {
    let contest = contest(for: bytes.span.extracting(range), hash: hash)
    claims.remove(slot, hash: hash)
    settle(contest)
  }

  mutating func retract(_ slot: Slot) {
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

  mutating func leaveRung(_ hash: Int) {
    if let uses = localizedRungs[hash] { localizedRungs[hash] = uses == 1 ? nil : uses - 1 }
  }

  /// Recomputes the rungs of all localized children: withdraws every second claim, then adds claims until a fixed point is
  /// reached.
  mutating func recomputeLocalized() {
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

  func stemHash(of slot: Slot) -> Int? {
    let length = Int(records[slot].stemLength)
    return length == 0 ? nil : hash(of: bytes.span.extracting(stemRange(slot)))
  }

  /// The hash of the claim on the composed real name. Nil where there is none, or the localized name is the same: a child claims
  /// a name once.
  func composedHash(of slot: Slot, _ localizedName: Name?) -> Int? {
    if records[slot].composedLength == 0 { return nil }
    let composed = bytes.span.extracting(composedRange(slot))
    return localizedName.map { equal($0.bytes.span, composed) } ?? false ? nil : hash(of: composed)
  }

  func isContested(_ name: Span<UInt8>, hash nameHash: Int, for slot: Slot) -> Bool {
    guard mayBeContested else { return false }
    if claims.count(hash: nameHash) > 1 { return true }
    guard let owner = realNames.find(hash: nameHash, where: { realNameEquals($0, name) }) else {
      return false
    }
    return owner != slot
  }
}
