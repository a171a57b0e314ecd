import Glibc

/// An open descriptor, closed exactly once.
public struct Descriptor: ~Copyable, Sendable {
  /// The number, valid as long as this value lives.
  public let rawValue: CInt

  /// Takes ownership of `rawValue`.
  public init(adopting rawValue: CInt) { self.rawValue = rawValue }

  deinit { close(rawValue) }

  /// Returns the descriptor and gives up its ownership: the caller closes it.
  public consuming func release() -> CInt {
    let raw = rawValue
    discard self
    return raw
  }
}
