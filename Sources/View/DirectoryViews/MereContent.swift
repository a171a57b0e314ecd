import BackingTree

extension ChangeWatch.Change {
  /// Whether only the content of a file has changed, and that content affects no listing.
  var isMereContent: Bool {
    switch self {
    case .content(let name, _), .modification(let name, _): !EntryInspector.mayName(name)
    default: false
    }
  }

  /// The same, for a change that the daemon itself made.
  var isOwnMereContent: Bool {
    switch self {
    case .content(_, isOwn: true), .modification(_, isOwn: true): isMereContent
    default: false
    }
  }
}
