import BackingTree
import DisplayNames
import Logging
import SystemPackage

/// The rules in force: the options, and the inspector that applies them to entries.
final class ViewRules: Sendable {
  private let current: Guarded<EntryInspector>
  private let malformedMetadataLog: MalformedMetadataLog
  private let isShared: Bool
  /// Whether nothing is changed for display, so that names need no projection. Other options cannot change this.
  let isPlainMirror: Bool

  /// - Parameters:
  ///   - source: the top directory, whose kind decides what `profile=auto` stands for.
  ///   - isShared: whether the view is used by all users.
  init(_ options: ViewOptions, of source: Directory, isShared: Bool, logger: Logger) {
    self.isShared = isShared
    let options = Self.resolved(options, of: source)
    malformedMetadataLog = MalformedMetadataLog(logger: logger)
    isPlainMirror = !options.profile.appliesRules
    current = Guarded(
      EntryInspector(
        options: options, root: source, isShared: isShared, malformedMetadataLog: malformedMetadataLog))
  }

  var inspector: EntryInspector { current.withLock { $0 } }

  /// An inspector for other options, or for the ones in force with what the volume declares now.
  ///
  /// - Throws: EINVAL for options that would turn a view into a mirror, or a mirror into a view.
  func inspector(for options: ViewOptions, of source: Directory) throws(Errno) -> EntryInspector {
    let options = Self.resolved(options, of: source)
    guard options.profile.appliesRules != isPlainMirror else { throw .invalidArgument }
    return EntryInspector(
      options: options, root: source, isShared: isShared, malformedMetadataLog: malformedMetadataLog,
      isMetadataFound: inspector.metadata.isPresent)
  }

  func replace(_ inspector: EntryInspector) { current.withLock { $0 = inspector } }

  private static func resolved(_ options: ViewOptions, of source: Directory) -> ViewOptions {
    options.resolved(options.profile == .auto ? View.detectProfile(of: source) : options.profile)
  }
}
