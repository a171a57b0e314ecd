/// A filename extension folded for comparison: ASCII letters in lower case, at most 32 bytes, stored in two 128-bit integers, so
/// that a look-up does not allocate.
struct FoldedExtension: Hashable, Sendable {
  static let maximumLength = 32

  /// Hashes only the low eight bytes of the first half: hardly any extension is longer.
  func hash(into hasher: inout Hasher) { hasher.combine(UInt64(truncatingIfNeeded: front)) }

  /// The same for the sets of extensions, which would otherwise take SipHash. Clients add no member to them.
  func _rawHashValue(seed: Int) -> Int { NameHash.mixed(Int(truncatingIfNeeded: front), seed: seed) }

  private let front: UInt128
  private let back: UInt128

  /// The extension that begins at `start`, the index after the period. Nil when it is empty or longer than 32 bytes.
  init?(_ name: Span<UInt8>, from start: Int) {
    guard start >= 0, start < name.count, name.count - start <= Self.maximumLength else { return nil }
    var front: UInt128 = 0
    var back: UInt128 = 0
    for index in start..<name.count {
      let byte = name[index]
      // File names contain no NUL. Rejecting it keeps the zero padding unambiguous.
      guard byte != 0 else { return nil }
      let folded = UInt128(asciiLowercase(byte))
      if index - start < 16 { front = front << 8 | folded } else { back = back << 8 | folded }
    }
    self.front = front
    self.back = back
  }

  /// An extension without its period, as written in tables and configuration files.
  init?(_ text: String) {
    let bytes = Array(text.utf8)
    self.init(bytes.span, from: 0)
  }
}

/// Folds ASCII letters to lower case and keeps every other byte.
@inline(__always)
func asciiLowercase(_ byte: UInt8) -> UInt8 { (0x41...0x5a).contains(byte) ? byte | 0x20 : byte }
