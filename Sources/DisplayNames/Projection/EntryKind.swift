/// The kind of an entry of a backing directory, as far as it affects names.
public enum EntryKind: Sendable, Hashable, CaseIterable {
  case file
  case directory
  /// A directory shown as one item. ``PackageTypes`` decides this before names are chosen; the rules here take it as given.
  case package
  /// A symbolic link. Its own name decides, never its target.
  case symlink
  /// An alias file of the Finder that is shown as a symbolic link. Its name is that of the file.
  case alias
  /// A pipe, socket or device. Programs find these by name, so their names are never altered.
  case other
}
