/// What may be changed through the view, by the domains of the file system ("File System Basics", Domains Determine the
/// Placement of Files, and iOS Standard Directories) and by the user's own rules.
public enum Protection: Sendable, Equatable {
  case none
  /// What is there can be read and deleted; nothing can be created, or written to.
  case removalOnly
  /// Nothing can be added, removed or altered.
  case readOnly
}

/// Whether the domains of the file system hold.
public enum DomainMode: String, CaseIterable, Sendable {
  case enforce
  case ignore
}

/// Follows a path from SOURCE on and tells how what it leads to is protected.
public struct ProtectionPath: Sendable {
  private let options: ViewOptions
  private var path: [Name] = []
  /// How deep the container that the path leads through is; nil when there is none.
  private var containerDepth: Int?
  /// How what lies in the directory that the path leads to is protected.
  public private(set) var contents = Protection.none

  public init(options: ViewOptions) {
    self.options = options
    noteContainer()
  }

  /// How the entry of that name itself is protected.
  public func entry(_ name: Name, isDirectory: Bool) -> Protection {
    let rules = DirectoryRules(options.rules, in: path)
    if let isReadOnly = rules.verdict(on: name.bytes.span, isDirectory: isDirectory).isReadOnly {
      return isReadOnly.value ? .readOnly : .none
    }
    let isSystem = enforcesDomains && name == "System" && options.place(ofPath: path).contains(.macVolumeRoot)
    return isSystem ? .readOnly : contents
  }

  /// Goes into a directory.
  ///
  /// - Parameter isSealed: whether it is an application that is not to be altered.
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
    if options.place(ofPath: path).contains(.container) { containerDepth = path.count }
  }
}

extension ViewOptions {
  /// Whether anything can be protected; false spares every look.
  public var protectsAnything: Bool {
    domains == .enforce && ([.macos, .ios].contains(profile) || !places.isEmpty)
      || rules.contains { $0.isReadOnly == true }
  }
}
