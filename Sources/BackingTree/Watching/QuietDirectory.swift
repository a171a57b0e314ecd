/// A directory that is open once more, in a detached mount of its own. A watch does not report what is written to files that are
/// opened through it (``ChangeWatch/quietDirectory(_:on:)``). Everything else is reported: changes of entries and of attributes,
/// truncations, and what is written to the same files by another way.
public final class QuietDirectory: Sendable {
  private let descriptor: Descriptor
  let handle: FileHandle

  init(adopting descriptor: consuming Descriptor, _ handle: FileHandle) {
    self.descriptor = descriptor
    self.handle = handle
  }

  public var directory: Directory { Directory(descriptor: descriptor.rawValue) }
}
