import BackingTree
import DisplayNames
import Glibc

/// The changes of one directory that were reported and are not processed yet, by the step that processes them.
struct PendingChanges {
  /// What is stale in the kernel's caches. The change loop invalidates it.
  struct Stale {
    /// The names of entries that were added, removed or replaced.
    var names: Set<Name> = []
    /// The names of entries whose content or attributes changed.
    var contents: Set<Name> = []
    /// The directory's own attributes changed.
    var haveAttributesChanged = false
    /// All that the kernel caches of the directory is stale.
    var isEverything = false

    /// With more names than this, the whole directory is treated as changed.
    private static let maximum = 4096

    mutating func limit() {
      if names.count + contents.count > Self.maximum { isEverything = true }
      guard isEverything else { return }
      names = []
      contents = []
    }
  }

  /// What is to be reported to programs that watch the mount, beside changes of names. The change loop does that. The contents of
  /// these entries are stale, too.
  struct Unreported {
    /// The names of entries that another process wrote.
    var written: Set<Name> = []
    var attributes: Set<Name> = []
  }

  /// What the directory view has to inspect again before it is used.
  struct Uninspected {
    var names: Set<Name> = []
    /// The names that a rename took or gave.
    var moved: Set<Name> = []
    /// The names whose attributes changed, which may decide how an entry is shown.
    var attributes: Set<Name> = []
    /// The names of entries of which another file holds metadata that was written.
    var metadata: Set<Name> = []
    /// The names whose content was written, which may decide how an entry is shown.
    var contents: Set<Name> = []
    var isEverything = false
    /// The directory's own attributes changed, which may decide how its entries are shown.
    var haveOwnAttributesChanged = false
    /// The rules by which all entries must be inspected from now on.
    var rules: DirectoryView.Rules?

    /// Adds a file of which the content changed.
    fileprivate mutating func addContent(_ cName: UnsafePointer<CChar>) {
      let name = Name(copying: cName)
      contents.insert(name)
      if strncmp(cName, "._", 2) == 0 { names.insert(name) }
      if EntryInspector.isHiddenList(cName) { isEverything = true }
    }

    fileprivate var isEmpty: Bool {
      !isEverything && !haveOwnAttributesChanged && names.isEmpty && attributes.isEmpty && contents.isEmpty
    }
  }

  /// The view of the directory, if one is in use.
  weak var view: DirectoryView?
  private var stale = Stale()
  private var unreported = Unreported()
  private var uninspected = Uninspected()
  /// Whether the change loop is to bring the view up to date: there may be no request that does.
  private var isViewOutdated = false
  /// Whether the change loop was notified of these changes.
  var isAnnounced = false

  /// Adds a change that the watch reported.
  ///
  /// - Parameters:
  ///   - isContentOnly: whether only content has changed that affects no listing.
  ///   - hasView: whether there is a view, which has to inspect what changed.
  ///   - isCollecting: whether there is a change loop, which processes the rest.
  mutating func add(
    _ change: ChangeWatch.Change, isContentOnly: Bool, hasView: Bool, isCollecting: Bool
  ) {
    guard hasView || isCollecting else { return }
    switch change {
    case .entry(let cName, let wasMoved):
      let name = Name(copying: cName)
      stale.names.insert(name)
      stale.haveAttributesChanged = true
      guard hasView else { break }
      inspectAgain {
        $0.names.insert(name)
        if wasMoved { $0.moved.insert(name) }
        if EntryInspector.isHiddenList(cName) { $0.isEverything = true }
      }
    case .content(let cName, let isOwn):
      let name = Name(copying: cName)
      if hasView, isCollecting, !isOwn {
        unreported.written.insert(name)
      } else {
        stale.contents.insert(name)
      }
      guard hasView else { break }
      inspectAgain { if !isContentOnly { $0.addContent(cName) } }
    case .modification(let cName, _):
      stale.contents.insert(Name(copying: cName))
      // truncate(2) of a path is reported as this alone: no file is closed.
      guard hasView, EntryInspector.isHiddenList(cName) || EntryInspector.isDesktopEntry(cName) else { break }
      inspectAgain { $0.addContent(cName) }
    case .attributes(let cName):
      let name = Name(copying: cName)
      if hasView, isCollecting { unreported.attributes.insert(name) } else { stale.contents.insert(name) }
      guard hasView else { break }
      inspectAgain { $0.attributes.insert(name) }
    case .directoryAttributes: stale.haveAttributesChanged = true
    case .everything:
      stale.isEverything = true
      if hasView { inspectAgain { $0.isEverything = true } }
    }
    // Without a change loop nothing would ever take it.
    if isCollecting { stale.limit() } else { stale = Stale() }
  }

  /// Adds something that the view has to inspect again.
  mutating func inspectAgain(_ add: (inout Uninspected) -> Void) {
    add(&uninspected)
    isViewOutdated = true
  }

  /// Begins to collect changes for another view, which has not read the directory yet.
  mutating func begin(for view: DirectoryView) {
    self.view = view
    uninspected = Uninspected()
    // The change loop was notified without the view, which must live until its changes are processed.
    isAnnounced = false
  }

  /// The rules that the view has to inspect its entries by, if it has not yet.
  var rules: DirectoryView.Rules? { uninspected.rules }

  /// Removes and returns what the view has to inspect; nil when that is nothing.
  mutating func takeUninspected() -> Uninspected? {
    if uninspected.isEmpty { return nil }
    defer { uninspected = Uninspected() }
    return uninspected
  }

  /// Removes and returns what the change loop has to process. The view is nil if it needs no attention.
  mutating func takeForLoop() -> (stale: Stale, unreported: Unreported, view: DirectoryView?) {
    defer {
      stale = Stale()
      unreported = Unreported()
      isViewOutdated = false
      isAnnounced = false
    }
    stale.contents.formUnion(unreported.written)
    stale.contents.formUnion(unreported.attributes)
    stale.limit()
    return (stale, unreported, isViewOutdated ? view : nil)
  }
}

extension ChangeWatch.Change {
  /// Whether only the content of a file has changed, and that content affects no listing.
  var isContentOnly: Bool {
    switch self {
    case .content(let name, _), .modification(let name, _): !EntryInspector.mayAffectListing(name)
    default: false
    }
  }

  /// Whether the content of a file has changed, and the daemon itself made the change.
  var isOwnContent: Bool {
    switch self {
    case .content(_, isOwn: true), .modification(_, isOwn: true): true
    default: false
    }
  }
}
