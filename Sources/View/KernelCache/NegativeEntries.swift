import DisplayNames

/// A name of which the kernel may hold a negative entry, as of the last reply that said so.
struct NegativeEntry: Hashable {
  let name: Name
  fileprivate let reply: UInt64
}

extension StaleName {
  init(_ entry: NegativeEntry, in directory: NodeID) {
    self.init(entry.name, in: directory, mayBeDirectory: true)
  }
}

/// The record of the names in one directory of which the kernel may hold negative entries.
///
/// A name is removed only after the message that invalidates its negative entry is queued: a thread that makes the name resolve
/// in between must find it here, to have the next path walk wait for that message.
struct NegativeEntries {
  private struct Record {
    /// The form that the name shares with names that are equal to it; nil for its own form.
    let form: Name?
    /// The number of the last reply after which the kernel may hold the negative entry.
    var reply: UInt64
  }

  private var records: [Name: Record] = [:]
  private var namesByForm: [Name: Set<Name>] = [:]
  private var replies: UInt64 = 0

  /// The maximum number in one directory: each has to be invalidated by name.
  private static let maximum = 1024

  var isEmpty: Bool { records.isEmpty }
  var all: [NegativeEntry] { records.map { NegativeEntry(name: $0.key, reply: $0.value.reply) } }

  /// Called before a reply after which the kernel may hold a negative entry of a name.
  ///
  /// - Returns: whether the name is among them; false when there are too many.
  mutating func insert(_ name: Name, _ matching: NameMatching) -> Bool {
    replies += 1
    if records[name] != nil {
      records[name]!.reply = replies
      return true
    }
    guard records.count < Self.maximum else { return false }
    let form = matching.sharedForm(of: name.bytes.span).map { Name($0) }
    records[name] = Record(form: form, reply: replies)
    if let form { namesByForm[form, default: []].insert(name) }
    return true
  }

  /// Those of a name and of all that are equal to it.
  func entries(equalTo name: Name, by matching: NameMatching) -> [NegativeEntry] {
    guard !isEmpty else { return [] }
    let form = matching.sharedForm(of: name.bytes.span).map { Name($0) }
    var equal = namesByForm[form ?? name] ?? []
    equal.insert(name)
    if let form { equal.insert(form) }
    return equal.compactMap { name in records[name].map { NegativeEntry(name: name, reply: $0.reply) } }
  }

  mutating func remove(_ name: Name) {
    guard let record = records.removeValue(forKey: name), let form = record.form else { return }
    namesByForm[form]?.remove(name)
    if namesByForm[form]?.isEmpty == true { namesByForm[form] = nil }
  }

  /// Removes those that no reply has renewed.
  mutating func remove(_ entries: some Sequence<NegativeEntry>) {
    for entry in entries where records[entry.name]?.reply == entry.reply { remove(entry.name) }
  }
}
