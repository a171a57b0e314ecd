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
  public func matches(of name: Span<UInt8>) -> Matches {
    var result = Matches.none
    _ = firstMatch(of: name) { match in
      guard case .one(let found) = result else {
        result = .one(match)
        return false
      }
      if found.slot == match.slot { return false }
      result = .several
      return true
    }
    return result
  }

  /// Whether a child is among the matches whose real name is none of `others`.
  public func hasMatch(of name: Span<UInt8>, besides others: [Name]) -> Bool {
    firstMatch(of: name) { !others.contains(realName(at: $0.slot)) } != nil
  }

  /// Whether a child that is not listed is among the matches.
  public func hasHiddenMatch(of name: Span<UInt8>) -> Bool {
    firstMatch(of: name) { records[$0.slot].hidden != nil } != nil
  }

  /// The first match for which `condition` holds. It may be called for a child more than once.
  private func firstMatch(of name: Span<UInt8>, where condition: (Resolution) -> Bool) -> Slot? {
    guard matching.mayMatch(name) else { return nil }
    // A name that is its own shared form is in the tables of names.
    let other = matching.sharedForm(of: name)
    var own: Resolution?
    if let other { own = resolve(other.span) } else { own = resolve(name) }
    if var own {
      own.isMatch = true
      if condition(own) { return own.slot }
    }
    let form = other ?? name.withUnsafeBytes { Array($0) }
    return sharedForms.find(hash: hash(of: form.span)) { slot in match(slot, form).map(condition) ?? false }
  }

  /// How a child is found by the shared form of one of its names; nil if it is not.
  private func match(_ slot: Slot, _ form: [UInt8]) -> Resolution? {
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

  mutating func rebuildSharedForms() {
    sharedForms = NameTable()
    for slot in records.indices where records[slot].isLive {
      var names = [realName(at: slot)]
      if records[slot].hidden == nil {
        if let name = localized[slot]?.name { names.append(name) }
        if records[slot].stemLength > 0 { names.append(Name(bytes[stemRange(slot)])) }
      }
      for name in names {
        if let form = sharedFormHash(of: name.bytes.span) { sharedForms.insert(slot, hash: form) }
      }
    }
  }
}

extension Projection.Record {
  /// Records the lengths of the composed names.
  ///
  /// - Returns: the composed real name; nil where the real name is shown as it is: it is composed, not UTF-8, or too long when
  ///   composed (U+0958 becomes two scalars).
  mutating func compose(_ realName: Span<UInt8>, if composes: Bool) -> [UInt8]? {
    guard composes, let composed = NormalForm.composed(realName), composed.count <= 255 else { return nil }
    composedLength = UInt16(composed.count)
    if stemLength > 0 {
      // A period composes with nothing, so this is the beginning of `composed`.
      let stem = realName.extracting(0..<Int(stemLength))
      composedStemLength = UInt16(NormalForm.composed(stem)?.count ?? stem.count)
    }
    return composed
  }
}
