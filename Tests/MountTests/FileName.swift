/// A file name as the kernel has it: bytes. Swift strings that are canonically equivalent are equal, file names are not.
struct FileName: Hashable, Comparable, Sendable, CustomStringConvertible, ExpressibleByStringLiteral {
  let bytes: [UInt8]

  init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

  init(_ text: String) { bytes = Array(text.utf8) }

  init(stringLiteral text: String) { bytes = Array(text.utf8) }

  var description: String {
    String(validating: bytes, as: UTF8.self)
      ?? bytes.map { (0x20..<0x7f).contains($0) ? String(UnicodeScalar($0)) : "\\x" + String($0, radix: 16) }
      .joined()
  }

  static func < (left: FileName, right: FileName) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }
}

extension Set<FileName> {
  /// What is missing of `expected` and what is there besides, nil when the two are equal: a long listing that differs
  /// in one name is read more easily so.
  func difference(from expected: Set<FileName>) -> String? {
    self == expected
      ? nil : "missing: \(expected.subtracting(self).sorted()), unexpected: \(subtracting(expected).sorted())"
  }
}
