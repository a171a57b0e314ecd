import DisplayNames

/// The names in one directory of which the kernel may hold negative entries.
struct NegativeEntries {
  /// The names, each with the form that it shares with names that are equal to it; nil for its own form.
  private var forms: [Name: Name?] = [:]
  private var namesByForm: [Name: Set<Name>] = [:]

  /// The maximum number in one directory: each has to be invalidated by name.
  private static let maximum = 1024

  var isEmpty: Bool { forms.isEmpty }
  var names: Set<Name> { Set(forms.keys) }

  /// - Returns: whether the name is among them; false when there are too many.
  mutating func insert(_ name: Name, _ matching: NameMatching) -> Bool {
    if forms[name] != nil { return true }
    guard forms.count < Self.maximum else { return false }
    let form = matching.sharedForm(of: name.bytes.span).map { Name($0) }
    forms[name] = .some(form)
    if let form { namesByForm[form, default: []].insert(name) }
    return true
  }

  /// - Returns: whether the name was among them.
  mutating func remove(_ name: Name) -> Bool {
    guard let form = forms.removeValue(forKey: name) else { return false }
    if let form {
      namesByForm[form]?.remove(name)
      if namesByForm[form]?.isEmpty == true { namesByForm[form] = nil }
    }
    return true
  }

  /// Removes a name and all that are equal to it.
  ///
  /// - Returns: those that were among them.
  mutating func remove(equalTo name: Name, by matching: NameMatching) -> [Name] {
    var equal: Set<Name> = [name]
    if matching != .exact {
      let form = matching.sharedForm(of: name)
      equal.insert(form)
      equal.formUnion(namesByForm[form] ?? [])
    }
    return equal.filter { remove($0) }
  }
}
