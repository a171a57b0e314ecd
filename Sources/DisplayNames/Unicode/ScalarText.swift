/// Where a separator, and not a character that readers see, decides. A combining mark after it, or a scalar such as U+0600 before
/// it, makes another `Character` of both, and CR and LF are one; the kernel, the shell and other programs see the separator.
extension StringProtocol {
  /// The parts between the separators, as `split` gives them by characters.
  package func parts(
    at separator: Unicode.Scalar, maxSplits: Int = .max, omittingEmptySubsequences: Bool = true
  ) -> [String] {
    unicodeScalars.split(
      separator: separator, maxSplits: maxSplits, omittingEmptySubsequences: omittingEmptySubsequences
    ).map { String(String.UnicodeScalarView($0)) }
  }

  /// Whether the bytes begin with those of the text.
  package func begins(with text: some StringProtocol) -> Bool { utf8.starts(with: text.utf8) }

  /// Whether the bytes end with those of the text.
  package func ends(with text: some StringProtocol) -> Bool {
    utf8.reversed().starts(with: text.utf8.reversed())
  }
}
