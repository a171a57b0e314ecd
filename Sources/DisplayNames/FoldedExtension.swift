/// A filename extension folded for comparison: ASCII letters in lower case, at most 32 bytes, held in two
/// machine words so that looking one up touches no heap.
struct FoldedExtension: Hashable, Sendable {
  static let maximumLength = 32

  /// Hardly any extension is longer than eight bytes.
  func hash(into hasher: inout Hasher) { hasher.combine(UInt64(truncatingIfNeeded: front)) }

  private let front: UInt128
  private let back: UInt128

  /// The extension that begins at `start`, just after the period. Nil when it is empty or longer than any
  /// extension the tables hold.
  init?(_ name: Span<UInt8>, from start: Int) {
    guard start >= 0, start < name.count, name.count - start <= Self.maximumLength else { return nil }
    var front: UInt128 = 0
    var back: UInt128 = 0
    for index in start..<name.count {
      let byte = name[index]
      // File names hold no NUL; refusing it here keeps zero padding unambiguous.
      guard byte != 0 else { return nil }
      let folded = UInt128(asciiLowercase(byte))
      if index - start < 16 { front = front << 8 | folded } else { back = back << 8 | folded }
    }
    self.front = front
    self.back = back
  }

  /// An extension written without its period, as tables and configuration files do.
  init?(_ text: String) {
    let bytes = Array(text.utf8)
    self.init(bytes.span, from: 0)
  }
}

/// ASCII letters folded to lower case; every other byte as it is.
@inline(__always)
func asciiLowercase(_ byte: UInt8) -> UInt8 { (0x41...0x5a).contains(byte) ? byte | 0x20 : byte }
