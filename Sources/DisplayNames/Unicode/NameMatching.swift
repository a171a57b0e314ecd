/// How a name that no entry has is compared with the names of the entries.
public enum NameMatching: String, CaseIterable, Sendable {
  /// Not at all: two names are equal when their bytes are.
  case exact
  /// Canonical equivalents are equal: `é` and `e` + combining acute. (The Unicode Standard, definition D70)
  case canonical
  /// Canonical caseless matches are equal: `É` and `é`, `STRASSE` and `Straße`. (D145; full case folding, without a locale)
  case caseless

  /// Whether a name may be equal to one with other bytes. With `canonical` a name of ASCII alone is compared by bytes, so that it
  /// costs nothing. (Three signs, of kelvin for one, are canonical equivalents of ASCII characters; a client types the latter.)
  package func mayMatch(_ name: Span<UInt8>) -> Bool {
    switch self {
    case .exact: false
    case .canonical: !name.isASCII
    case .caseless: true
    }
  }

  /// The form that all names share which are equal to this one.
  ///
  /// - Returns: nil if that is the name itself, as it is of a name that is not valid UTF-8.
  package func sharedForm(of name: Span<UInt8>) -> [UInt8]? {
    switch self {
    case .exact: nil
    case .canonical: NormalForm.composed(name)
    case .caseless: NormalForm.caseless(name)
    }
  }

  /// The same as a name; the name itself if it is its own form.
  package func sharedForm(of name: Name) -> Name { sharedForm(of: name.bytes.span).map { Name($0) } ?? name }
}

/// Whether decomposed names, as HFS+ stores them, are shown composed.
public enum NameNormalization: String, CaseIterable, Sendable {
  /// In normalization form C.
  case nfc
  case off
}

extension Name {
  /// The name in normalization form C, and the name itself if it is not valid UTF-8.
  package var composed: Name { NormalForm.composed(bytes.span).map { Name($0) } ?? self }
}
