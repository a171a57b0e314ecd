/// The changes that the view permits, according to the domains of the file system ("File System Basics", Domains Determine the
/// Placement of Files, and iOS Standard Directories) and to the user's own rules.
public enum Protection: Sendable, Equatable {
  case none
  /// Existing entries can be read and deleted. No entry can be created or written to.
  case removalOnly
  /// No entry can be added, removed or changed.
  case readOnly
}

/// Whether the protection of the file system domains is enforced.
public enum DomainMode: String, CaseIterable, Sendable {
  case enforce
  case ignore
}

/// Follows a path from SOURCE on and determines the protection of its entries.
public struct ProtectionPath: Sendable {
  private let options: ViewOptions
  private var path: [Name] = []
  /// The depth of the container on the path; nil when there is none.
  private var containerDepth: Int?
  /// The protection of the entries of the current directory.
  public private(set) var contents = Protection.none

  public init(options: ViewOptions) {
    self.options = options
    noteContainer()
  }

  /// The protection of the entry of that name itself.
  public func entry(_ name: Name, isDirectory: Bool) -> Protection {
    let rules = DirectoryRules(options.rules, in: path)
    if let isReadOnly = rules.verdict(on: name.bytes.span, isDirectory: isDirectory).isReadOnly {
      return isReadOnly.value ? .readOnly : .none
    }
    let isSystem = enforcesDomains && name == "System" && options.role(ofPath: path).contains(.macVolumeRoot)
    return isSystem ? .readOnly : contents
  }

  /// Descends into a directory.
  ///
  /// - Parameter isSealed: returns whether the directory is an application that must not be changed.
  public mutating func enter(_ name: Name, isSealed: () -> Bool) {
    let entry = entry(name, isDirectory: true)
    let isInbox =
      enforcesDomains && name == "Inbox" && path.last == "Documents" && path.count - 1 == containerDepth
    let seals = mayHoldApplications && name.bytes.count > 4 && name.bytes.suffix(4).elementsEqual(".app".utf8)
    path.append(name)
    noteContainer()
    contents = entry == .none && isInbox ? .removalOnly : entry
    if contents == .none, seals, isSealed() { contents = .readOnly }
  }

  private var enforcesDomains: Bool { options.domains == .enforce }
  private var mayHoldApplications: Bool {
    enforcesDomains && (options.profile == .macos || containerDepth != nil)
  }

  private mutating func noteContainer() {
    if options.role(ofPath: path).contains(.container) { containerDepth = path.count }
  }
}

extension ViewOptions {
  /// Whether any entry can be protected. When false, callers skip all checks.
  public var protectsAnything: Bool {
    domains == .enforce && ([.macos, .ios].contains(profile) || !rolePatterns.isEmpty)
      || rules.contains { $0.isReadOnly == true }
  }
}
