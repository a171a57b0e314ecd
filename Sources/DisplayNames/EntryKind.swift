/// What an entry of a backing directory is, as far as names are concerned.
public enum EntryKind: Sendable, Hashable, CaseIterable {
  case file
  case directory
  /// A directory that people see as one item. Whether it is one is decided by ``PackageTypes`` before names
  /// are chosen; the rules here take it as given.
  case package
  /// A symbolic link, judged by its own name and never by what it leads to.
  case symlink
  /// A pipe, socket or device: programs find these by name, so their names are never altered.
  case other
}
