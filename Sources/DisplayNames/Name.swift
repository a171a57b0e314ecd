/// A POSIX file name: raw bytes, not necessarily UTF-8.
///
/// Equality, hashing and order are those of the bytes. `String` equality would treat `é` and `e` + accent as equal, which are two
/// files on Linux file systems.
public struct Name: Hashable, Sendable {
  /// The bytes, without a terminating NUL.
  public let bytes: [UInt8]

  public init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

  public init(_ string: String) { self.bytes = Array(string.utf8) }

  /// The hash that all name tables use.
  public func hash(into hasher: inout Hasher) { hasher.combine(NameHash.hash(of: bytes.span)) }

  /// The same for sets and dictionaries of names, which would otherwise hash it once more with SipHash: 200 instructions.
  public func _rawHashValue(seed: Int) -> Int { NameHash.mixed(NameHash.hash(of: bytes.span), seed: seed) }

  /// The name as text, or nil when its bytes are not valid UTF-8.
  public var text: String? { String(validating: bytes, as: UTF8.self) }
}

extension Name: Comparable {
  public static func < (a: Name, b: Name) -> Bool { a.bytes.lexicographicallyPrecedes(b.bytes) }
}

extension Name: ExpressibleByStringLiteral {
  public init(stringLiteral value: String) { self.init(value) }
}

extension Name: CustomStringConvertible {
  /// For users: bytes that are not UTF-8 and control characters are written as `\xNN`.
  public var description: String {
    if let text, !text.unicodeScalars.contains(where: { $0.value < 0x20 || 0x7f..<0xa0 ~= $0.value }) {
      return text
    }
    var out = ""
    for byte in bytes {
      if (0x20..<0x7f).contains(byte) {
        out.unicodeScalars.append(Unicode.Scalar(byte))
      } else {
        let digits = String(byte, radix: 16)
        out += "\\x" + (digits.count == 1 ? "0" : "") + digits
      }
    }
    return out
  }
}
