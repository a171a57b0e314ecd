/// The names listed in a directory's `.hidden` file, which hides its siblings.
///
/// One name a line, compared byte for byte: no comments, no wildcards, nothing trimmed (glib
/// glocalfileinfo.c, read_hidden_file; Mac OS X up to 10.5 had the same file at the root of the boot volume).
public struct HiddenList: Sendable {
  /// A longer file is not a list of names that somebody keeps.
  public static let maximumSize = 1 << 20

  private let names: Set<Name>

  /// The list in a file's contents; empty when they are longer than ``maximumSize``.
  public init(contents: [UInt8]) {
    guard contents.count <= Self.maximumSize else {
      names = []
      return
    }
    names = Set(contents.split(separator: 0x0a).lazy.map { Name($0) })
  }

  public var isEmpty: Bool { names.isEmpty }

  public func contains(_ name: Name) -> Bool { names.contains(name) }
}
