/// A directory that is open once more, in the quiet mount of a ``ChangeWatch``: a detached clone of the root's mount. The watch does
/// not report what is written to files that are opened through it. Everything else is reported: changes of entries and of
/// attributes, truncations, and what is written to the same files by another way.
public final class QuietDirectory: Sendable {
  private let descriptor: Descriptor

  init(adopting descriptor: consuming Descriptor) { self.descriptor = descriptor }

  public var directory: Directory { Directory(descriptor: descriptor.rawValue) }
}
