import BackingTree
import DisplayNames
import Logging

/// Logs malformed metadata that is ignored, once for each kind and view: a volume may hold a million cases of one kind.
final class MalformedMetadataLog: Sendable {
  private let kinds = Guarded<Set<String>>([])
  private let logger: Logger

  init(logger: Logger) { self.logger = logger }

  /// - Parameter kind: the metadata that is malformed, as part of a sentence: "Info.plist".
  func noteIgnored(_ kind: String, of name: Name) {
    guard kinds.withLock({ $0.insert(kind).inserted }) else { return }
    logger.notice("\(name): its \(kind) is malformed and ignored; further ones are not logged")
  }
}
