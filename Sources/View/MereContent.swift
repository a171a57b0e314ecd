import BackingTree

extension ChangeWatch.Change {
  /// Whether only content has changed, which says nothing of how anything is listed.
  var isMereContent: Bool {
    switch self {
    case .content(let name, _), .modification(let name, _): !EntryInspector.mayName(name)
    default: false
    }
  }

  /// The same, written by the daemon itself.
  var isOwnMereContent: Bool {
    switch self {
    case .content(_, isOwn: true), .modification(_, isOwn: true): isMereContent
    default: false
    }
  }
}
