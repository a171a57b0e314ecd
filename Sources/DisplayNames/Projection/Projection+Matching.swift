/// Names that differ from all names of a projection in their bytes alone.
extension Projection {
  /// The children with a name that is equal to a given one by ``matching``.
  public enum Matches: Sendable, Equatable {
    case none
    case one(Resolution)
    /// Which of them is meant cannot be known.
    case several
  }

  /// Looks up the children whose real name or display name is equal to `name` by ``matching``, in constant time. Meant for a name
  /// that does not resolve: the child that has these very bytes is among them.
  ///
  /// - Parameter includingHidden: whether a child that is not listed is among them.
  public func matches(of name: Span<UInt8>, includingHidden: Bool = true) -> Matches {
    guard matching.mayMatch(name), let found = candidates(for: name, includingHidden) else { return .none }
    if found.counted > 1 { return .several }
    guard let slot = found.onlyCounted, let match = match(slot, found.form) else {
      return found.byForm.map { .one($0) } ?? .none
    }
    return found.byForm.map { $0.slot == slot ? .one($0) : .several } ?? .one(match)
  }

  /// Whether a child is among the matches whose real name is none of `others`.
  public func hasMatch(of name: Span<UInt8>, besides others: [Name], includingHidden: Bool = true) -> Bool {
    guard let found = candidates(for: name, includingHidden) else { return false }
    var count = found.counted
    // The child that the form itself leads to is counted if its real name has that form.
    if let slot = found.byForm?.slot,
      found.form == realName(at: slot).bytes || !isForm(found.form, of: realName(at: slot))
    {
      count += 1
    }
    let excluded = Set(others).count { other in
      slot(realName: other.bytes.span).map { slot in
        (includingHidden || records[slot].hidden == nil) && match(slot, found.form) != nil
      } ?? false
    }
    return count > excluded
  }

  /// The matches of a name, as far as they are found without a walk through them.
  private struct Candidates {
    let form: [UInt8]
    /// The child that the form itself leads to: a name that is its own shared form is in no table of forms.
    var byForm: Resolution?
    /// The number of children by the tables of forms, and the one if there is exactly one.
    let counted: Int
    let onlyCounted: Slot?
  }

  private func candidates(for name: Span<UInt8>, _ includingHidden: Bool) -> Candidates? {
    guard matching.mayMatch(name) else { return nil }
    let form = matching.sharedForm(of: name) ?? name.withUnsafeBytes { Array($0) }
    let hash = hash(of: form.span)
    var byForm = resolve(form.span)
    if let found = byForm, !includingHidden, records[found.slot].hidden != nil { byForm = nil }
    byForm?.isMatch = true
    let counted = shownForms.count(hash: hash) + (includingHidden ? hiddenForms.count(hash: hash) : 0)
    let slot = shownForms.onlyClaimant(hash: hash) ?? hiddenForms.onlyClaimant(hash: hash)
    return Candidates(form: form, byForm: byForm, counted: counted, onlyCounted: counted == 1 ? slot : nil)
  }

  /// How a child is found by the shared form of one of its names; nil if it is not.
  private func match(_ slot: Slot, _ form: [UInt8]) -> Resolution? {
    guard records[slot].isLive else { return nil }
    let isShown = records[slot].hidden == nil
    if isShown, isForm(form, of: displayName(at: slot)) {
      return Resolution(slot: slot, byDisplayName: true, isMatch: true)
    }
    guard isForm(form, of: realName(at: slot)) else { return nil }
    return Resolution(slot: slot, byDisplayName: isShown && rung(of: slot) == .realName, isMatch: true)
  }

  private func isForm(_ form: [UInt8], of name: Name) -> Bool { matching.sharedForm(of: name).bytes == form }

  // MARK: Shared forms

  /// The hash of the form that a name shares with its matches; nil if that is the name itself.
  func sharedFormHash(of name: Span<UInt8>) -> Int? {
    matching == .exact ? nil : matching.sharedForm(of: name).map { hash(of: $0.span) }
  }

  /// A real name in normalization form C, where its composed or its shared form is needed; nil if that is the name itself.
  func normalized(_ realName: Span<UInt8>) -> [UInt8]? {
    composes || matching == .canonical ? NormalForm.composed(realName) : nil
  }

  /// The same as ``sharedFormHash(of:)`` of a name that was normalized before.
  func formHash(of realName: Span<UInt8>, normalized: [UInt8]?) -> Int? {
    matching == .canonical ? normalized.map { hash(of: $0.span) } : sharedFormHash(of: realName)
  }

  /// Counts a child for the form of its real name.
  mutating func addForm(_ form: Int?, ofRealNameAt slot: Slot) {
    guard let form else { return }
    if records[slot].hidden == nil {
      shownForms.add(slot, hash: form)
    } else {
      hiddenForms.add(slot, hash: form)
    }
  }

  mutating func removeForm(_ form: Int?, ofRealNameAt slot: Slot) {
    guard let form else { return }
    if records[slot].hidden == nil {
      shownForms.remove(slot, hash: form)
    } else {
      hiddenForms.remove(slot, hash: form)
    }
  }

  mutating func rebuildSharedForms() {
    shownForms = ClaimTable()
    hiddenForms = ClaimTable()
    guard matching != .exact else { return }
    for slot in records.indices where records[slot].isLive {
      addForm(sharedFormHash(of: bytes.span.extracting(range(slot))), ofRealNameAt: slot)
      let rung = rung(of: slot)
      guard rung == .localized || rung == .extensionHidden else { continue }
      let name = displayName(at: slot)
      guard let form = sharedFormHash(of: name.bytes.span) else { continue }
      let holder = holder(of: name.bytes.span, hash: hash(of: name.bytes.span), form: form)
      if let holder { shownForms.add(holder, hash: form) }
    }
  }

  // MARK: Contests

  /// A name that children may claim, and the child that was counted for its shared form before a change of the claims on it.
  ///
  /// A contested claim leads nowhere. So a child is counted for the form of a name only while it alone has that name: then the
  /// number of matches is known, however many children claim names of one form.
  struct Contest {
    fileprivate let name: [UInt8]
    fileprivate let hash: Int
    fileprivate let form: Int
    fileprivate let holder: Slot?
  }

  /// Called before a claim on a name, or a real name, is added or removed.
  ///
  /// - Returns: what ``settle(_:)`` needs afterwards; nil where the name is its own shared form.
  func contest(for name: Span<UInt8>, hash: Int) -> Contest? {
    guard let form = sharedFormHash(of: name) else { return nil }
    return Contest(
      name: name.withUnsafeBytes { Array($0) }, hash: hash, form: form,
      holder: holder(of: name, hash: hash, form: form))
  }

  mutating func settle(_ contest: Contest?) {
    guard let contest else { return }
    let holder = holder(of: contest.name.span, hash: contest.hash, form: contest.form)
    guard holder != contest.holder else { return }
    if let old = contest.holder { shownForms.remove(old, hash: contest.form) }
    if let holder { shownForms.add(holder, hash: contest.form) }
  }

  /// The child that is shown by a name, its localized name or its name without the extension, and is not counted for the form of
  /// that name already: that may be the form of its real name, too.
  private func holder(of name: Span<UInt8>, hash: Int, form: Int) -> Slot? {
    guard let slot = claims.onlyClaimant(hash: hash) else { return nil }
    let owner = realNames.find(hash: hash, where: { realNameEquals($0, name) })
    guard owner == nil || owner == slot else { return nil }
    if !localized.isEmpty, let claimed = localized[slot], equal(claimed.name.bytes.span, name) {
      let realName = bytes.span.extracting(range(slot))
      return (sharedFormHash(of: realName) ?? self.hash(of: realName)) == form ? nil : slot
    }
    // A composed name has the form of the real name, and a name without its extension never has.
    let isStem = records[slot].stemLength > 0 && equal(bytes.span.extracting(stemRange(slot)), name)
    return isStem ? slot : nil
  }
}

extension Projection.Record {
  /// Records the lengths of the composed names.
  ///
  /// - Parameter composed: the real name in normalization form C; nil if that is the real name itself.
  /// - Returns: the same; nil where it is too long to be shown (U+0958 becomes two scalars).
  mutating func compose(_ realName: Span<UInt8>, to composed: [UInt8]?) -> [UInt8]? {
    guard let composed, composed.count <= 255 else { return nil }
    composedLength = UInt16(composed.count)
    // A period composes with nothing, so the end of the composed name is the composed extension.
    if stemLength > 0 {
      let ending = realName.extracting(Int(stemLength)...)
      composedStemLength = UInt16(composed.count - (NormalForm.composed(ending)?.count ?? ending.count))
    }
    return composed
  }
}
