import BackingTree
import DisplayNames
import Logging

/// Tells of what is malformed and therefore ignored, once per view and kind: a volume may hold a million of the same.
final class Complaints: Sendable {
  private let kinds = Guarded<Set<String>>([])
  private let logger: Logger

  init(logger: Logger) { self.logger = logger }

  /// - Parameter kind: what is malformed, as a part of a sentence: "Info.plist".
  func ignored(_ kind: String, of name: Name) {
    guard kinds.withLock({ $0.insert(kind).inserted }) else { return }
    logger.notice("\(name): its \(kind) is malformed and is ignored; more of the kind will not be told of")
  }
}
