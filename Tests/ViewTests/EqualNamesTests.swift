import BackingTree
import DisplayNames
import Glibc
import Synchronization
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// Names that are equal to those of entries by the option `matching`, without a kernel that looks them up first.
@Suite struct EqualNamesTests {
  private final class RecordingCache: KernelCacheInvalidator {
    let names = Mutex<Set<Name>>([])
    func invalidate(_ stale: [StaleName]) { names.withLock { $0.formUnion(stale.map(\.name)) } }
    func invalidateBeforeNextWalk(_ names: [StaleName]) { invalidate(names) }
    func expireAttributes(of node: NodeID, in directory: NodeID?) {}
  }

  private let root = NodeTable.root

  private func caseless() -> ViewOptions {
    var options = ViewOptions()
    options.matching = .caseless
    return options
  }

  private func names(_ tree: ViewedTree) throws -> Set<Name> {
    var names: Set<Name> = []
    let listed = Descriptor(adopting: open(tree.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
    try forEachEntry(of: listed.rawValue) { names.insert(Name($0.name)) }
    return names.subtracting([".", ".."])
  }

  private func rename(_ old: String, _ new: String, _ view: View, _ flags: RenameFlags = []) throws {
    try old.withCString { old in
      try new.withCString { try view.rename(root, old, to: root, $0, flags: flags, client: .daemon) }
    }
  }

  private func lookup(_ name: String, _ view: View) throws -> Entry {
    try name.withCString { try view.lookup(root, $0) }
  }

  @Test func renameToEqualName_changesCaseOrNormalization() throws {
    let tree = try ViewedTree("notes.txt", "e\u{301}", "other", options: caseless())
    let view = tree.view
    try rename("notes", "NOTES", view)
    #expect(try names(tree) == ["NOTES.txt", "e\u{301}", "other"])
    try rename("NOTES.txt", "Notes.txt", view)
    try rename("e\u{301}", "\u{c9}", view)
    #expect(try names(tree) == ["Notes.txt", "\u{c9}", "other"])
    #expect(throws: Errno.fileExists) { try rename("\u{c9}", "\u{e9}", view, .noReplace) }
    #expect(throws: Errno.fileExists) { try rename("other", "\u{e9}", view, .noReplace) }
    // Onto another entry: that is replaced, and keeps its name.
    try rename("other", "e\u{301}", view)
    #expect(try names(tree) == ["Notes.txt", "\u{c9}"])
    try rename("notes", "NOTES", view, .exchange)
    #expect(try names(tree) == ["Notes.txt", "\u{c9}"])
  }

  @Test func equalName_isNeverCached() throws {
    let tree = try ViewedTree("notes.txt", options: caseless())
    let view = tree.view
    view.startCaching(RecordingCache())
    // The directory is watched from the first lookup on.
    _ = try lookup("notes", view)
    let (display, real, equal) = (
      try lookup("notes", view), try lookup("notes.txt", view), try lookup("NOTES", view)
    )
    #expect(display.nameVersion != nil && real.nameVersion != nil && equal.nameVersion == nil)
    #expect(display.id == equal.id)
    #expect(view.nodes.aliases(of: equal.id) == [.real, .display, .match])
  }

  @Test func removalByEqualName_invalidatesNameThatKernelKeeps() throws {
    let tree = try ViewedTree("notes.txt", options: caseless())
    let view = tree.view
    let cache = RecordingCache()
    view.startCaching(cache)
    for name in ["notes", "NOTES"] { _ = try lookup(name, view) }
    try "NOTES".withCString { try view.unlink(root, $0, client: .daemon) }
    #expect(cache.names.withLock { $0.contains("notes") })
  }

  @Test func createdEntry_invalidatesNegativeEntriesOfEqualNames() throws {
    let tree = try ViewedTree("other", options: caseless())
    let view = tree.view
    let cache = RecordingCache()
    view.startCaching(cache)
    func isNegative(_ name: String) throws -> Bool {
      try name.withCString { try view.lookupOrNegativeEntry(root, $0, client: .daemon).id == 0 }
    }
    _ = try? lookup("absent", view)
    for name in ["LETTER", "Letter.TXT", "unrelated"] { #expect(try isNegative(name)) }
    tree.make("readme")
    tree.make("README")
    // Two entries match: it resolves when one of them goes.
    #expect(throws: Errno.noSuchFileOrDirectory) { try isNegative("ReadMe") }
    let created = try "letter.txt".withCString {
      try view.create(root, $0, mode: 0o644, flags: O_WRONLY | O_CREAT, client: .daemon)
    }
    view.close(created.file)
    #expect(
      cache.names.withLock { $0.isSuperset(of: ["LETTER", "Letter.TXT"]) && !$0.contains("unrelated") })
  }

  /// Nothing would notice that `letter` resolves once `letter.txt` is there.
  @Test func negativeEntries_ofDroppedView_areInvalidated() throws {
    let tree = try ViewedTree("other")
    let view = tree.view
    let cache = RecordingCache()
    view.startCaching(cache)
    _ = try? lookup("absent", view)
    let entry = try "letter".withCString { try view.lookupOrNegativeEntry(root, $0, client: .daemon) }
    #expect(entry.id == 0)
    view.invalidateDisplayNames(of: view.directories.views.removeAll())
    #expect(cache.names.withLock { $0.contains("letter") })
  }

  @Test func negativeEntries_areFoundByEqualName_andBounded() {
    var entries = NegativeEntries()
    func insert(_ name: Name) -> Bool { entries.insert(name, .caseless) }
    func remove(equalTo name: Name, by matching: NameMatching) -> Set<Name> {
      let equal = entries.entries(equalTo: name, by: matching)
      entries.remove(equal)
      return Set(equal.map(\.name))
    }
    for name: Name in ["\u{e9}", "e\u{301}", "E\u{301}", "a"] { #expect(insert(name)) }
    #expect(remove(equalTo: "a", by: .exact) == ["a"])
    #expect(remove(equalTo: "a", by: .exact) == [])
    #expect(remove(equalTo: "\u{c9}", by: .canonical) == [])
    #expect(remove(equalTo: "\u{c9}", by: .caseless) == ["\u{e9}", "e\u{301}", "E\u{301}"])
    #expect(entries.isEmpty)
    for number in 0..<1100 { #expect(insert(Name("A\(number)")) == (number < 1024)) }
    #expect(entries.all.count == 1024)
    #expect(remove(equalTo: "a7", by: .caseless) == ["A7"])
  }

  /// The kernel may hold the negative entry of the later reply when the message that invalidates the earlier one is sent.
  @Test func negativeEntry_thatALaterReplyRenewed_stays() {
    var entries = NegativeEntries()
    func insert(_ name: Name) -> Bool { entries.insert(name, .exact) }
    #expect(insert("a"))
    let old = entries.all
    #expect(insert("a"))
    entries.remove(old)
    #expect(entries.all.map(\.name) == ["a"])
    let new = entries.all
    entries.remove(new)
    #expect(entries.isEmpty)
  }
}
