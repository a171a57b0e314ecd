/// Hashes of numbers, for tables in the memory of this process.
///
/// Clients choose what is hashed: the server of a file system, inode numbers. So the hashes are keyed with random numbers of the
/// process, and no client can choose keys that collide.
public enum KeyedHash {
  @usableFromInline static let keys = (
    UInt64.random(in: .min ... .max), UInt64.random(in: .min ... .max)
  )

  /// One multiplication of two words, each with a key of its own: a request computes several hashes, and SipHash takes some 200
  /// instructions for each.
  @inlinable public static func hash(_ a: UInt64, _ b: UInt64) -> Int {
    let product = (a ^ keys.0).multipliedFullWidth(by: b ^ keys.1)
    return Int(truncatingIfNeeded: product.high ^ product.low)
  }
}

/// A number as the key of a set or dictionary, which would otherwise hash it with SipHash.
public struct NumberKey: Hashable, Sendable {
  @usableFromInline let number: UInt64

  @inlinable public init(_ number: some BinaryInteger) { self.number = UInt64(truncatingIfNeeded: number) }

  @inlinable public static func == (a: Self, b: Self) -> Bool { a.number == b.number }
  @inlinable public func hash(into hasher: inout Hasher) { hasher.combine(number) }
  @inlinable public func _rawHashValue(seed: Int) -> Int {
    KeyedHash.hash(number, UInt64(bitPattern: Int64(seed)))
  }
}
