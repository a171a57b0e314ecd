import Glibc
import Testing

/// A program that changes the document `$FILE`, as a script that runs in the document's directory.
///
/// `$WORK` is a directory elsewhere, and the program's home. It holds a file of the document's name with the new text,
/// the mode 600 and a time of the year 2001.
struct ProgramRun: Sendable, CustomTestStringConvertible {
  let testDescription: String
  let script: String
  /// What the program makes of the old document, by the document's display name.
  let backup: FileName?
  /// What the program leaves in the document.
  let result: String
  /// The longest that it may take, in seconds.
  let longest: Int

  static let before = "old text\n"
  static let after = "new text\n"

  /// - Parameter backup: what the program renames the old document to. Like the document it is a text and keeps its extension.
  init(
    _ title: String, _ script: String, backup: FileName? = nil, leaving result: String = after,
    within longest: Int = 60
  ) {
    testDescription = title
    self.script = script
    self.backup = backup
    self.result = result
    self.longest = longest
  }

  /// Runs the program in a plain directory and in a view, by the document's display name and by its real one, and
  /// expects no difference: the same entries, contents, modes, owners and attributes, but for the extensions that the
  /// view hid and gave back.
  func expectNoDifference(_ location: SourceLocation = #_sourceLocation) throws {
    try expectNoDifferenceByDisplayName(byNFS: nil, location)
    let plain = try Workplace(document: "report.txt")
    _ = try run(in: plain.directory, of: plain, on: "report.txt")
    let difference = try differenceInView("report.txt", from: plain.entries, location)
    #expect(difference == nil, "by the real name", sourceLocation: location)
  }

  /// - Parameter version: that of NFS, if the program runs where a client has mounted the plain directory and the view.
  func expectNoDifferenceByDisplayName(
    byNFS version: String? = nil, _ location: SourceLocation = #_sourceLocation
  ) throws {
    let plain = try Workplace(document: "report")
    let outcome = try run(in: plain.directory, of: plain, on: "report", byNFS: version)
    #expect(outcome.status == 0, "without a view: \(outcome.complaint)", sourceLocation: location)
    var realNames: [FileName: FileName] = ["report": "report.txt"]
    if let backup { realNames[backup] = FileName(backup.bytes + Array(".txt".utf8)) }
    let expected = plain.entries.renamed(by: realNames)
    let difference = try differenceInView("report", from: expected, byNFS: version, location)
    #expect(difference == nil, "by the display name", sourceLocation: location)
  }

  /// Runs the program in a plain directory, and in a view of a document whose real name is decomposed, as on a volume from a Mac.
  /// There it is given the composed name, as it is typed on Linux. Expects no difference, and that the real name is kept.
  ///
  /// - Parameter byRealName: whether the program is given the composed form of the real name, not of the display name.
  func expectNoDifferenceByComposedName(
    byRealName: Bool, _ location: SourceLocation = #_sourceLocation
  ) throws {
    let (shown, real) = ("R\u{e9}sum\u{e9}", "Re\u{301}sume\u{301}.txt")
    let typed = byRealName ? shown + ".txt" : shown
    let plain = try Workplace(document: typed)
    let outcome = try run(in: plain.directory, of: plain, on: typed)
    #expect(outcome.status == 0, "without a view: \(outcome.complaint)", sourceLocation: location)
    let expected = plain.entries.renamed(by: [FileName(typed): FileName(real)])
    let difference = try differenceInView(typed, from: expected, real: real, shown: shown, location)
    #expect(difference == nil, "by \(typed)", sourceLocation: location)
  }

  private func differenceInView(
    _ name: String, from expected: Entries, real: String = "report.txt", shown: String = "report",
    byNFS version: String? = nil, _ location: SourceLocation
  ) throws -> String? {
    let workplace = try Workplace(document: name)
    let view = try MountedView(version == nil ? "" : "export,allow_other") { root in
      try Workplace.putDocument(at: "\(root)/\(real)")
    }
    let original = try OpenFile(view.real(real))
    let outcome = try run(in: view.mountPoint, of: workplace, on: name, byNFS: version)
    #expect(outcome.status == 0, "\(outcome.complaint)", sourceLocation: location)
    #expect(text(view.real(real)) == result, sourceLocation: location)
    #expect(text(view.at(shown)) == result, sourceLocation: location)
    #expect(view.listing().contains(FileName(shown)), sourceLocation: location)
    return Entries(of: view.source, originally: original).difference(from: expected)
  }

  /// Runs the program in a directory, or where a client of NFS has mounted it with its default options.
  private func run(
    in directory: String, of workplace: Workplace, on name: String, byNFS version: String? = nil
  ) throws -> Outcome {
    guard let version else { return workplace.run(script, in: directory, on: name, within: longest) }
    let client = try NFSClient(of: directory, version: version, options: "")
    let outcome = workplace.run(script, in: client.root, on: name, within: longest)
    #expect(text(client.at(name)) == result)
    return outcome
  }
}

/// A document in a plain directory, and a directory with what programs need to change it.
final class Workplace {
  private let base: String
  private let original: OpenFile

  init(document: String) throws {
    var template = Array("\(Shell.temporaryDirectory)/displayfs-plain-XXXXXX".utf8CString)
    let made = mkdtemp(&template).map { String(cString: $0) }
    base = try #require(made)
    makeDirectory("\(base)/plain")
    try Self.putDocument(at: "\(base)/plain/\(document)")
    original = try OpenFile("\(base)/plain/\(document)")
    try put(ProgramRun.after, at: "\(base)/work/\(document)")
    chmod("\(base)/work/\(document)", 0o600)
    setTime(1_000_000_000, of: "\(base)/work/\(document)")
  }

  deinit { _ = Shell.run(["rm", "-rf", "--one-file-system", base]) }

  var directory: String { "\(base)/plain" }
  var entries: Entries { Entries(of: directory, originally: original) }

  /// An old document with a mode that no program gives by itself, and a mark that only the same file keeps.
  static func putDocument(at path: String) throws {
    try put(ProgramRun.before, at: path)
    chmod(path, 0o640)
    _ = setAttribute("user.mark", to: Array("original".utf8), of: path)
    setTime(900_000_000, of: path)
  }

  func run(
    _ script: String, in directory: String, on document: String, within longest: Int = 60
  ) -> Outcome {
    Shell.run(
      "set -e; \(script)", in: directory,
      with: ["FILE": document, "WORK": "\(base)/work", "HOME": "\(base)/work", "TERM": "vt100"],
      within: longest)
  }
}

extension Outcome {
  /// What a program said, for the message of a failed expectation.
  var complaint: String { "status \(status): \(text)\n\(errorText)" }
}

func setTime(_ seconds: Int, of path: String) {
  let times = [timespec(tv_sec: seconds, tv_nsec: 0), timespec(tv_sec: seconds, tv_nsec: 0)]
  utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW)
}

/// All that is in a directory and below it, by path.
struct Entries {
  private var entries: [FileName: Entry]

  struct Entry: Hashable, CustomStringConvertible {
    let mode: mode_t
    let owner: uid_t
    let group: gid_t
    let links: nlink_t
    let content: [UInt8]
    let mark: String?
    let isOriginal: Bool
    /// When it is one that a program copied, nil when it is that of the run.
    let time: Int?

    var description: String {
      "mode \(String(mode, radix: 8)), \(owner):\(group), \(links) links, mark \(mark ?? "none"), "
        + "\(isOriginal ? "the old file" : "another file"), time \(time.map { "\($0)" } ?? "now"), "
        + "\(String(decoding: content.prefix(80), as: UTF8.self))"
    }
  }

  /// - Parameter original: the document, as it was opened before the program ran: no other file can have its inode number.
  init(of root: String, originally original: OpenFile) {
    entries = [:]
    add(names(root), below: "", of: root, original.status)
  }

  private mutating func add(_ names: Set<FileName>, below path: String, of root: String, _ original: stat) {
    for name in names {
      let relative = path + name.description
      let full = "\(root)/\(relative)"
      guard let found = status(full) else { continue }
      let old = found.st_mtim.tv_sec < 1_100_000_000
      entries[FileName(relative)] = Entry(
        mode: found.st_mode, owner: found.st_uid, group: found.st_gid,
        links: found.isDirectory ? 0 : found.st_nlink,
        content: found.isRegular ? contents(full) ?? [] : [], mark: attribute("user.mark", of: full),
        isOriginal: found.st_ino == original.st_ino, time: old ? found.st_mtim.tv_sec : nil)
      if found.isDirectory { add(MountTests.names(full), below: relative + "/", of: root, original) }
    }
  }

  /// The same entries under other names.
  func renamed(by table: [FileName: FileName]) -> Entries {
    var result = self
    result.entries = [:]
    for (name, entry) in entries { result.entries[table[name] ?? name] = entry }
    return result
  }

  /// Nil when there is none.
  func difference(from expected: Entries) -> String? {
    let all = Set(entries.keys).union(expected.entries.keys).sorted()
    let lines = all.filter { entries[$0] != expected.entries[$0] }.map { name in
      "\(name): \(entries[name]?.description ?? "is missing"); expected: \(expected.entries[name]?.description ?? "nothing")"
    }
    return lines.isEmpty ? nil : lines.joined(separator: "\n")
  }
}

extension Trait where Self == ConditionTrait {
  /// For tests of programs that not every machine has. Without them a test is skipped, but where the environment says
  /// that they must be there it runs and fails.
  static func needing(_ programs: String...) -> Self {
    let missing = programs.filter { Shell.run(["which", $0]).status != 0 }
    return .enabled(
      if: missing.isEmpty || getenv("DISPLAYFS_REQUIRE_PROGRAMS") != nil,
      "Not installed here: \(missing.joined(separator: ", ")). Mount/setup --tests installs it.")
  }
}
