import BackingTree
import DisplayNames
import SystemPackage
import Testing

@testable import View

private let known: Set<String> = ["jpg", "jpeg", "png", "txt", "pdf", "gz", "app", "pages"]

/// How many bytes come before an extension that says what a file is; nil when there is none.
private func stemLength(_ name: Name) -> Int? {
  guard let dot = name.bytes.lastIndex(of: UInt8(ascii: ".")), dot > 0,
    let end = Name(name.bytes[(dot + 1)...]).text?.lowercased(), known.contains(end)
  else { return nil }
  return dot
}

/// A directory that holds the real names `names`, with their extensions hidden where possible.
private struct SampleDirectory: DestinationFacts {
  let names: [Name]

  func hasKnownExtension(_ name: Name) -> Bool { stemLength(name) != nil }

  func hasEntry(_ name: Name) -> Bool { names.contains(name) }

  func hasMatch(_ name: Name, besides others: [Name]) -> Bool { false }

  func canShow(_ wanted: Name) -> Bool {
    !names.contains { name in stemLength(name).map { Name(name.bytes.prefix($0)) == wanted } ?? false }
  }
}

private func directory(_ names: [Name] = []) -> SampleDirectory { SampleDirectory(names: names) }

private func real(_ name: Name, shown: Name? = nil, _ apparentType: ApparentType = .file) -> RenameSource {
  RenameSource(realName: name, displayName: shown ?? name, addressing: .realName, apparentType: apparentType)
}

private func hiding(_ display: Name, _ real: Name, _ apparentType: ApparentType = .file) -> RenameSource {
  RenameSource(realName: real, displayName: display, addressing: .hiddenExtension, apparentType: apparentType)
}

private func localized(_ display: Name, _ real: Name, _ apparentType: ApparentType = .directory)
  -> RenameSource
{
  RenameSource(realName: real, displayName: display, addressing: .localized, apparentType: apparentType)
}

private func absent(_ typed: Name, elsewhere: Bool = false, tunnelled: Name? = nil) -> RenameTarget {
  RenameTarget(typed: typed, sameDirectory: !elsewhere, tunnelled: tunnelled)
}

private func present(
  _ typed: Name, _ real: Name, _ apparentType: ApparentType = .file, elsewhere: Bool = false
)
  -> RenameTarget
{
  RenameTarget(
    typed: typed, existing: .init(realName: real, apparentType: apparentType), sameDirectory: !elsewhere)
}

private func itself(_ typed: Name, _ real: Name, _ apparentType: ApparentType = .file) -> RenameTarget {
  RenameTarget(typed: typed, existing: .init(realName: real, isSource: true, apparentType: apparentType))
}

private func bytes(_ count: Int) -> Name { Name([UInt8](repeating: UInt8(ascii: "n"), count: count)) }

struct RenameRow: Sendable, CustomTestStringConvertible {
  let promise: String
  let source: RenameSource
  let target: RenameTarget
  var flags: RenameFlags = []
  var hasEntry: [Name] = []
  let plan: RenamePlan

  init(
    _ promise: String, _ source: RenameSource, _ target: RenameTarget, flags: RenameFlags = [],
    hasEntry: [Name] = [], _ plan: RenamePlan
  ) {
    self.promise = promise
    self.source = source
    self.target = target
    self.flags = flags
    self.hasEntry = hasEntry
    self.plan = plan
  }

  var testDescription: String { promise }
}

private let photo = hiding("photo", "photo.jpg")
private let calc = hiding("Calc", "Calc.app", .package)
private let documents = localized("Dokumente", "Documents")

private func move(_ from: Name, _ to: Name) -> RenamePlan { .move(from: from, to: to, exclusive: false) }
private func moveUntyped(_ from: Name, _ to: Name) -> RenamePlan {
  .move(from: from, to: to, exclusive: true)
}

private let hiddenExtensionToAbsent: [RenameRow] = [
  .init("the hidden extension stays", photo, absent("trip"), moveUntyped("photo.jpg", "trip.jpg")),
  .init("the same extension is not doubled", photo, absent("trip.jpg"), move("photo.jpg", "trip.jpg")),
  .init(
    "the same extension in another case is not doubled", photo, absent("trip.JPG"),
    move("photo.jpg", "trip.JPG")),
  .init(
    "another known extension takes the typed name", photo, absent("trip.png"), move("photo.jpg", "trip.png")),
  .init(
    "an extension that only hides is not doubled either", hiding("v1", "v1.2"), absent("v3.2"),
    move("v1.2", "v3.2")),
  .init("a number is no extension", photo, absent("v1.2"), moveUntyped("photo.jpg", "v1.2.jpg")),
  .init(
    "a backup name keeps the type of the backup", photo, absent("photo~"),
    moveUntyped("photo.jpg", "photo~.jpg")),
  .init(
    "an unknown extension keeps the type", photo, absent("photo.bak"),
    moveUntyped("photo.jpg", "photo.bak.jpg")),
  .init(
    "the name of the extension alone is a name", photo, absent("jpg"), moveUntyped("photo.jpg", "jpg.jpg")),
  .init(
    "a trailing period is part of the name", photo, absent("trip."), moveUntyped("photo.jpg", "trip..jpg")),
  .init("a dot name is taken as typed", photo, absent(".photo"), move("photo.jpg", ".photo")),
  .init("a dot name is not taken for an extension", photo, absent(".jpg"), move("photo.jpg", ".jpg")),
  .init(
    "the trash keeps the extension", photo, absent("photo", elsewhere: true),
    moveUntyped("photo.jpg", "photo.jpg")),
  .init(
    "out of the trash under another name", hiding("photo.2", "photo.2.jpg"), absent("photo", elsewhere: true),
    moveUntyped("photo.2.jpg", "photo.jpg")),
  .init(
    "renaming the backup back restores the name", hiding("notes~", "notes~.txt"), absent("notes"),
    moveUntyped("notes~.txt", "notes.txt")),
  .init(
    "the entry's own extension wins over a remembered one", photo, absent("notes", tunnelled: "notes.txt"),
    moveUntyped("photo.jpg", "notes.jpg")),
  .init(
    "a change of case keeps the extension and does not stumble over itself", photo, absent("Photo"),
    move("photo.jpg", "Photo.jpg")),
  .init(
    "typing the extension in another case changes its case", photo, absent("photo.JPG"),
    move("photo.jpg", "photo.JPG")),
  .init(
    "a change of case does not replace another entry", photo, absent("Photo"),
    hasEntry: ["Photo.jpg", "Photo.png"],
    .refuse(.fileExists)),
  .init("a package keeps its extension", calc, absent("Sums"), moveUntyped("Calc.app", "Sums.app")),
  .init(
    "the extension keeps its case", hiding("photo", "photo.JPG"), absent("trip"),
    moveUntyped("photo.JPG", "trip.JPG")),
  .init(
    "names that are not UTF-8 carry too", hiding(Name([0xff]), Name([0xff, 0x2e, 0x6a, 0x70, 0x67])),
    absent(Name([0xfe])),
    moveUntyped(Name([0xff, 0x2e, 0x6a, 0x70, 0x67]), Name([0xfe, 0x2e, 0x6a, 0x70, 0x67]))),
  .init(
    "a display name that is no beginning of the real name is not edited", hiding("Foto", "photo.jpg"),
    absent("trip"), .refuse(.notPermitted)),
  .init(
    "a name that just fits with its extension", photo, absent(bytes(251)),
    moveUntyped("photo.jpg", Name(bytes(251).bytes + Array(".jpg".utf8)))),
  .init("a name that does not fit with its extension", photo, absent(bytes(252)), .refuse(.fileNameTooLong)),
  // `trip.jpg` is listed in full because `trip.png` contests `trip`: the typed name does not mean to replace it.
  .init(
    "a taken real name is not replaced", photo, absent("trip"), hasEntry: ["trip.jpg", "trip.png"],
    .refuse(.fileExists)),
  .init(
    "a clash with other types keeps the extension", photo, absent("trip"),
    hasEntry: ["trip.png", "trip.gif"],
    moveUntyped("photo.jpg", "trip.jpg")),
  .init(
    "NOREPLACE checks the real target", photo, absent("trip"), flags: .noReplace, hasEntry: ["trip.jpg"],
    .refuse(.fileExists)),
  .init(
    "NOREPLACE onto nothing moves", photo, absent("trip"), flags: .noReplace,
    moveUntyped("photo.jpg", "trip.jpg")),
  .init(
    "NOREPLACE onto a typed extension", photo, absent("trip.png"), flags: .noReplace,
    moveUntyped("photo.jpg", "trip.png")),
  .init("an entry that is there already stays", photo, absent("photo"), .noChange),
]

private let hiddenExtensionToPresent: [RenameRow] = [
  .init(
    "a target of another type goes after the move", photo, present("trip", "trip.png"),
    .moveThenRemove(from: "photo.jpg", to: "trip.jpg", remove: "trip.png")),
  .init(
    "a target without an extension goes after the move", photo, present("trip", "trip"),
    .moveThenRemove(from: "photo.jpg", to: "trip.jpg", remove: "trip")),
  .init(
    "a target of the same type is replaced in one step", photo, present("trip", "trip.jpg"),
    move("photo.jpg", "trip.jpg")),
  .init(
    "a target of the same type in another case is replaced in one step", photo, present("trip", "trip.JPG"),
    move("photo.jpg", "trip.JPG")),
  .init(
    "the target named by its real name is replaced in one step", photo, present("trip.png", "trip.png"),
    move("photo.jpg", "trip.png")),
  .init(
    "a dot file is replaced in one step", photo, present(".photo", ".photo"), move("photo.jpg", ".photo")),
  .init(
    "in another directory too", photo, present("photo", "photo.png", elsewhere: true),
    .moveThenRemove(from: "photo.jpg", to: "photo.jpg", remove: "photo.png")),
  .init(
    "a third entry is not replaced", photo, present("trip", "trip"), hasEntry: ["trip", "trip.jpg"],
    .refuse(.fileExists)),
  .init(
    "a target whose name with the extension does not fit", photo, present(bytes(253), bytes(253)),
    .refuse(.fileNameTooLong)),
  .init(
    "NOREPLACE checks the display name", photo, present("trip", "trip.png"), flags: .noReplace,
    .refuse(.fileExists)),
  .init(
    "a file does not replace a directory", photo, present("trip", "trip", .directory), .refuse(.isDirectory)),
  .init(
    "a file replaces a symlink", photo, present("trip", "trip", .special),
    .moveThenRemove(from: "photo.jpg", to: "trip.jpg", remove: "trip")),
  .init(
    "a file replaces a package after the move", photo, present("Calc", "Calc.app", .package),
    .moveThenRemove(from: "photo.jpg", to: "Calc.jpg", remove: "Calc.app")),
  .init(
    "a file does not replace the inside of a package", photo, present("Calc.app", "Calc.app", .directory),
    .refuse(.isDirectory)),
  .init(
    "a package replaces a package by exchange", calc, present("Sums", "Sums.app", .package),
    .exchangeThenRemove(from: "Calc.app", to: "Sums.app")),
  .init(
    "a package replaces a package of another type after the move", calc,
    present("Essay", "Essay.pages", .package),
    .moveThenRemove(from: "Calc.app", to: "Essay.app", remove: "Essay.pages")),
  .init(
    "a package replaces a file after the move", calc, present("notes", "notes.txt"),
    .moveThenRemove(from: "Calc.app", to: "notes.app", remove: "notes.txt")),
  .init(
    "a package replaces a localized package under a name that shows as typed", calc,
    present("Rechner", "Calculator.app", .package),
    .moveThenRemove(from: "Calc.app", to: "Rechner.app", remove: "Calculator.app")),
  .init(
    "packages listed as directories replace only what is empty", hiding("Calc", "Calc.app", .directory),
    present("Essay", "Essay.pages", .directory),
    .moveThenRemove(from: "Calc.app", to: "Essay.app", remove: "Essay.pages")),
]

private let realNameToAbsent: [RenameRow] = [
  .init("the typed name", real("tmp"), absent("notes"), move("tmp", "notes")),
  .init(
    "the typed name, in another directory", real("tmp"), absent("tmp", elsewhere: true), move("tmp", "tmp")),
  .init(
    "the real name is edited literally", real("photo.jpg", shown: "photo"), absent("trip"),
    move("photo.jpg", "trip")),
  .init(
    "a remembered name comes back", real("tmp"), absent("notes", tunnelled: "notes.txt"),
    moveUntyped("tmp", "notes.txt")),
  .init(
    "a remembered name that is taken is not", real("tmp"), absent("notes", tunnelled: "notes.txt"),
    hasEntry: ["notes.txt"], move("tmp", "notes")),
  .init(
    "one that would be shown in full is not", real("tmp"), absent("notes", tunnelled: "notes.txt"),
    hasEntry: ["notes.jpg", "notes.png"], move("tmp", "notes")),
  .init(
    "a directory takes no remembered name", real("tmp", .directory), absent("notes", tunnelled: "notes.txt"),
    move("tmp", "notes")),
  .init(
    "a symlink takes no remembered name", real("tmp", .special), absent("notes", tunnelled: "notes.txt"),
    move("tmp", "notes")),
  .init(
    "dropping one's own extension is meant", real("notes.txt"), absent("notes", tunnelled: "notes.txt"),
    hasEntry: ["notes.txt"], move("notes.txt", "notes")),
  .init("NOREPLACE", real("tmp"), absent("notes"), flags: .noReplace, moveUntyped("tmp", "notes")),
  .init("a change of case", real("notes"), absent("Notes"), move("notes", "Notes")),
  .init("the longest name", real("tmp"), absent(bytes(255)), move("tmp", bytes(255))),
  .init("a name that does not fit", real("tmp"), absent(bytes(256)), .refuse(.fileNameTooLong)),
  .init(
    "a package named by its real name", real("Calc.app", shown: "Calc", .directory), absent("Sums.app"),
    move("Calc.app", "Sums.app")),
]

private let realNameToPresent: [RenameRow] = [
  .init(
    "the target keeps its real name", real("tmp"), present("notes", "notes.txt"), move("tmp", "notes.txt")),
  .init(
    "the target keeps its real name, whatever wrote it", real("tmp.jpg", shown: "tmp"),
    present("notes", "notes.txt"),
    move("tmp.jpg", "notes.txt")),
  .init(
    "out of another directory", real("tmp"), present("notes", "notes.txt", elsewhere: true),
    move("tmp", "notes.txt")),
  .init(
    "a target by its real name", real("tmp"), present("notes.txt", "notes.txt"), move("tmp", "notes.txt")),
  .init(
    "a localized directory keeps its real name", real("tmp", .directory),
    present("Dokumente", "Documents", .directory),
    move("tmp", "Documents")),
  .init(
    "a file does not get a package's name", real("tmp"), present("Calc", "Calc.app", .package),
    .moveThenRemove(from: "tmp", to: "Calc", remove: "Calc.app")),
  .init(
    "a package shown in full is replaced by exchange", real("tmp"), present("Calc.app", "Calc.app", .package),
    .exchangeThenRemove(from: "tmp", to: "Calc.app")),
  .init(
    "a package shown in full replaces a file by exchange", real("Calc.app", .package),
    present("notes", "notes"),
    .exchangeThenRemove(from: "Calc.app", to: "notes")),
  .init(
    "NOREPLACE checks the display name", real("tmp"), present("notes", "notes.txt"), flags: .noReplace,
    .refuse(.fileExists)),
  .init(
    "NOREPLACE checks the real name", real("tmp"), present("notes.txt", "notes.txt"), flags: .noReplace,
    .refuse(.fileExists)),
  .init(
    "a file does not replace a directory", real("tmp"), present("d", "d", .directory), .refuse(.isDirectory)),
  .init(
    "a directory does not replace a file", real("d", .directory), present("notes", "notes.txt"),
    .refuse(.notDirectory)),
  .init(
    "a directory does not replace a package's file", real("d", .directory),
    present("Calc", "Calc.app", .package),
    .refuse(.notDirectory)),
  .init(
    "a directory on a directory is for the file system to judge", real("d", .directory),
    present("e", "e", .directory),
    move("d", "e")),
]

private let localizedNames: [RenameRow] = [
  .init(
    "moves, real name kept", documents, absent("Dokumente", elsewhere: true),
    moveUntyped("Documents", "Documents")),
  .init(
    "its real name is no other name", documents, absent("Documents", elsewhere: true),
    move("Documents", "Documents")),
  .init("another name, same directory", documents, absent("Papiere"), .refuse(.notPermitted)),
  .init(
    "another name, other directory", documents, absent("Papiere", elsewhere: true), .refuse(.notPermitted)),
  .init(
    "another name that is present", documents, present("Papiere", "Papiere", .directory),
    .refuse(.notPermitted)),
  .init(
    "a taken real name is not replaced", documents, absent("Dokumente", elsewhere: true),
    hasEntry: ["Documents"],
    .refuse(.fileExists)),
  .init(
    "onto its like in another directory", documents,
    present("Dokumente", "Documents", .directory, elsewhere: true),
    move("Documents", "Documents")),
  .init(
    "onto a directory of that very name", documents,
    present("Dokumente", "Dokumente", .directory, elsewhere: true),
    .moveThenRemove(from: "Documents", to: "Documents", remove: "Dokumente")),
  .init(
    "a localized application moves as a whole", localized("Rechner", "Calculator.app", .package),
    absent("Rechner", elsewhere: true), moveUntyped("Calculator.app", "Calculator.app")),
  .init(
    "a localized application is not renamed", localized("Rechner", "Calculator.app", .package),
    absent("Summen.app"), .refuse(.notPermitted)),
  .init(
    "NOREPLACE onto its like", documents, present("Dokumente", "Documents", .directory, elsewhere: true),
    flags: .noReplace,
    .refuse(.fileExists)),
  .init(
    "by its real name it is renamed", real("Documents", shown: "Dokumente", .directory), absent("Papers"),
    move("Documents", "Papers")),
]

private let oneEntry: [RenameRow] = [
  .init("display name to real name", photo, itself("photo.jpg", "photo.jpg"), .noChange),
  .init(
    "real name to display name", real("photo.jpg", shown: "photo"), itself("photo", "photo.jpg"), .noChange),
  .init("display name to itself", photo, itself("photo", "photo.jpg"), .noChange),
  .init("localized name to real name", documents, itself("Documents", "Documents", .directory), .noChange),
  .init(
    "real name to localized name", real("Documents", shown: "Dokumente", .directory),
    itself("Dokumente", "Documents", .directory), .noChange),
  .init("a package's file to its directory", calc, itself("Calc.app", "Calc.app", .directory), .noChange),
  .init(
    "a package's directory to its file", real("Calc.app", shown: "Calc", .directory),
    itself("Calc", "Calc.app", .package), .noChange),
  .init("two hard links", photo, itself("trip", "trip.png"), .noChange),
  .init("exchange with itself", photo, itself("photo.jpg", "photo.jpg"), flags: .exchange, .noChange),
  // The kernel refuses this one without sending a request: the name exists.
  .init(
    "NOREPLACE onto itself", photo, itself("photo.jpg", "photo.jpg"), flags: .noReplace, .refuse(.fileExists)),
]

private let exchanges: [RenameRow] = [
  .init(
    "each side keeps its real name", photo, present("notes", "notes.txt"), flags: .exchange,
    .exchange(from: "photo.jpg", with: "notes.txt")),
  .init("by real names", real("a"), present("b", "b"), flags: .exchange, .exchange(from: "a", with: "b")),
  .init(
    "a real name with a display name", real("tmp"), present("notes", "notes.txt"), flags: .exchange,
    .exchange(from: "tmp", with: "notes.txt")),
  .init(
    "in another directory", photo, present("photo", "photo.jpg", elsewhere: true), flags: .exchange,
    .exchange(from: "photo.jpg", with: "photo.jpg")),
  .init(
    "a file with a directory", real("a"), present("d", "d", .directory), flags: .exchange,
    .exchange(from: "a", with: "d")),
  .init(
    "a localized directory", documents, present("d", "d", .directory), flags: .exchange,
    .exchange(from: "Documents", with: "d")),
  .init(
    "packages", calc, present("Essay", "Essay.pages", .package), flags: .exchange,
    .exchange(from: "Calc.app", with: "Essay.pages")),
  .init(
    "a package with a file would end both", calc, present("notes", "notes.txt"), flags: .exchange,
    .refuse(.invalidArgument)),
  .init(
    "a file with a package would end both", photo, present("Calc", "Calc.app", .package), flags: .exchange,
    .refuse(.invalidArgument)),
  .init("with nothing", photo, absent("trip"), flags: .exchange, .refuse(.noSuchFileOrDirectory)),
  .init(
    "with nothing, though the name was there", real("tmp"), absent("notes", tunnelled: "notes.txt"),
    flags: .exchange,
    .refuse(.noSuchFileOrDirectory)),
  .init(
    "together with NOREPLACE", photo, present("notes", "notes.txt"), flags: [.exchange, .noReplace],
    .refuse(.invalidArgument)),
]

@Suite struct RenamePlanTests {
  private func check(_ row: RenameRow) {
    let plan = RenamePlan.plan(row.source, to: row.target, flags: row.flags, in: directory(row.hasEntry))
    #expect(plan == row.plan)
  }

  @Test(arguments: hiddenExtensionToAbsent) func plan_toAbsentName_carriesHiddenExtension(row: RenameRow) { check(row) }
  @Test(arguments: hiddenExtensionToPresent) func plan_toPresentName_replacesWithOwnExtension(row: RenameRow) {
    check(row)
  }
  @Test(arguments: realNameToAbsent) func plan_fromRealNameToAbsentName_takesTypedName(row: RenameRow) { check(row) }
  @Test(arguments: realNameToPresent) func plan_fromRealNameToPresentName_keepsItsRealName(row: RenameRow) { check(row) }
  @Test(arguments: localizedNames) func plan_fromLocalizedName_movesButDoesNotEdit(row: RenameRow) { check(row) }
  @Test(arguments: oneEntry) func plan_toSameEntry_movesNothing(row: RenameRow) { check(row) }
  @Test(arguments: exchanges) func plan_forExchange_swapsContents(row: RenameRow) { check(row) }

  /// Tries every combination of names and kinds of both ends: only the named entry goes away.
  @Test func plan_touchesNamedEntriesOnly() {
    let facets: [ApparentType] = [.file, .special, .directory, .package]
    let bystanders: [Name] = ["trip.jpg", "notes.txt", "Documents", "photo.jpg"]
    var plans = 0
    for apparentType in facets {
      for source in [
        real("s", apparentType), hiding("photo", "photo.jpg", apparentType),
        localized("Dokumente", "Documents", apparentType),
      ] {
        for typed: Name in ["trip", "trip.jpg", "trip.png", "photo", "Dokumente", "notes", ".x"] {
          for existing in [nil, typed, "other.png" as Name] {
            for existingFacet in facets {
              for elsewhere in [false, true] {
                for flags: RenameFlags in [[], .noReplace, .exchange] {
                  for tunnelled in [nil, "notes.txt" as Name] {
                    let there = existing.map {
                      RenameTarget.Existing(realName: $0, apparentType: existingFacet)
                    }
                    let target = RenameTarget(
                      typed: typed, existing: there, sameDirectory: !elsewhere, tunnelled: tunnelled)
                    // A bystander with the typed name would be its target.
                    let others = bystanders.filter { $0 != existing && $0 != typed }
                    let plan = RenamePlan.plan(source, to: target, flags: flags, in: directory(others))
                    switch plan {
                    case .move(let from, let to, _):
                      #expect(from == source.realName && !others.contains(to))
                    case .moveThenRemove(let from, let to, let remove):
                      #expect(
                        from == source.realName && !others.contains(to) && remove == existing && to != remove)
                    case .exchangeThenRemove(let from, let to), .exchange(let from, let to):
                      #expect(from == source.realName && to == existing)
                    case .noChange, .refuse: break
                    }
                    if flags == .noReplace, existing != nil { #expect(plan == .refuse(.fileExists)) }
                    plans += 1
                  }
                }
              }
            }
          }
        }
      }
    }
    #expect(plans == 4 * 3 * 7 * 3 * 4 * 2 * 3 * 2)
  }
}

@Suite struct CreatePlanTests {
  // A name that does not resolve is created as it is typed.
  @Test func createPlan_forNewFile_takesTypedName() {
    #expect(
      CreatePlan.file(typed: "notes", tunnelled: nil, in: directory()) == .create("notes", exclusive: false))
    #expect(CreatePlan.file(typed: bytes(256), tunnelled: nil, in: directory()) == .refuse(.fileNameTooLong))
  }

  // A save that moves the file away and writes a new one restores the real name.
  @Test func createPlan_forSavedFile_restoresRealName() {
    #expect(
      CreatePlan.file(typed: "notes", tunnelled: "notes.txt", in: directory())
        == .create("notes.txt", exclusive: true))
    #expect(
      CreatePlan.file(typed: "notes", tunnelled: "notes.txt", in: directory(["notes.txt"]))
        == .create("notes", exclusive: false))
    // The restored name would be shown in full, and not be found under the typed name.
    #expect(
      CreatePlan.file(typed: "notes", tunnelled: "notes.txt", in: directory(["notes.jpg", "notes.png"]))
        == .create("notes", exclusive: false))
  }

  private func link(
    _ source: RenameSource, _ typed: Name, elsewhere: Bool = false,
    tunnelled: Name? = nil,
    hasEntry: [Name] = []
  ) -> CreatePlan {
    .link(
      source, typed: typed, sameDirectory: !elsewhere, tunnelled: tunnelled,
      in: directory(hasEntry))
  }

  // A link of a display name keeps the hidden extension, by the same rules as a rename.
  @Test func link_keepsHiddenExtension() {
    #expect(link(photo, "photo~") == .create("photo~.jpg", exclusive: true))
    #expect(link(photo, "photo", elsewhere: true) == .create("photo.jpg", exclusive: true))
    #expect(link(photo, "photo.bak") == .create("photo.bak.jpg", exclusive: true))
    #expect(link(photo, "trip.jpg") == .create("trip.jpg", exclusive: false))
    #expect(link(photo, "trip.JPG") == .create("trip.JPG", exclusive: false))
    #expect(link(photo, "trip.png") == .create("trip.png", exclusive: false))
    #expect(link(photo, ".trip") == .create(".trip", exclusive: false))
    #expect(link(photo, bytes(252)) == .refuse(.fileNameTooLong))
  }

  @Test func linkPlan_neverReplaces() {
    #expect(link(photo, "trip", hasEntry: ["trip.jpg"]) == .refuse(.fileExists))
  }

  @Test func linkPlan_fromRealName_takesTypedOrRememberedName() {
    #expect(link(real("photo.jpg", shown: "photo"), "trip") == .create("trip", exclusive: false))
    #expect(link(real("tmp"), "notes", tunnelled: "notes.txt") == .create("notes.txt", exclusive: true))
    #expect(
      link(real("fifo", .special), "notes", tunnelled: "notes.txt") == .create("notes", exclusive: false))
  }

  @Test func linkPlan_ofDirectoryOrPackage_isRefused() {
    #expect(link(calc, "Sums") == .refuse(.notPermitted))
    #expect(link(real("d", .directory), "e") == .refuse(.notPermitted))
  }

  @Test func linkPlan_thatEditsLocalizedName_isRefused() {
    let file = localized("Notizen", "notes.txt", .file)
    #expect(link(file, "Papiere") == .refuse(.notPermitted))
    #expect(link(file, "Notizen", elsewhere: true) == .create("notes.txt", exclusive: true))
  }
}

/// Composed display names, and names that are only equal to those of entries.
@Suite struct EqualNamePlanTests {
  private static let decomposed = RenameSource(
    realName: "e\u{301}.txt", displayName: "\u{e9}", addressing: .hiddenExtension, stemLength: 3, isComposed: true)

  /// A directory whose names are compared without regard to case.
  private struct CaselessDirectory: DestinationFacts {
    let names: [Name]

    func hasKnownExtension(_ name: Name) -> Bool { stemLength(name) != nil }

    func hasEntry(_ name: Name) -> Bool { names.contains(name) }

    func hasMatch(_ name: Name, besides others: [Name]) -> Bool {
      names.contains { !others.contains($0) && $0.isCaselessMatch(of: name) }
    }

    func canShow(_ name: Name) -> Bool { true }
  }

  private func caseless(_ names: [Name]) -> CaselessDirectory { CaselessDirectory(names: names) }

  @Test func composedStem_keepsExtension() {
    let directory = directory(["e\u{301}.txt"])
    #expect(
      RenamePlan.plan(Self.decomposed, to: RenameTarget(typed: "b"), in: directory)
        == .move(from: "e\u{301}.txt", to: "b.txt", exclusive: true))
    #expect(
      CreatePlan.link(Self.decomposed, typed: "b", sameDirectory: true, tunnelled: nil, in: directory)
        == .create("b.txt", exclusive: true))
  }

  @Test func moveToOtherDirectory_underUnchangedComposedName_keepsItsBytes() {
    let folder = RenameSource(
      realName: "E\u{301}te\u{301}", displayName: "\u{c9}t\u{e9}", addressing: .realName, apparentType: .directory,
      isComposed: true)
    for source in [Self.decomposed, folder] {
      let there = RenameTarget(typed: source.displayName, sameDirectory: false)
      #expect(
        RenamePlan.plan(source, to: there, in: directory())
          == .move(from: source.realName, to: source.realName, exclusive: true))
      #expect(
        RenamePlan.plan(source, to: there, in: directory([source.realName])) == .refuse(.fileExists))
    }
    // The composed form of the whole real name is another name than the one shown: it was typed.
    let typed = RenameTarget(typed: "\u{e9}.txt", sameDirectory: false)
    #expect(
      RenamePlan.plan(Self.decomposed, to: typed, in: directory())
        == .move(from: "e\u{301}.txt", to: "\u{e9}.txt", exclusive: false))
  }

  @Test func replacementOfEqualName_keepsItsBytes() {
    let target = RenameTarget(typed: "\u{e9}", existing: .init(realName: "e\u{301}.jpg"))
    #expect(
      RenamePlan.plan(hiding("photo", "photo.jpg"), to: target, in: directory(["photo.jpg", "e\u{301}.jpg"]))
        == .move(from: "photo.jpg", to: "e\u{301}.jpg", exclusive: false))
    let other = RenameTarget(typed: "NOTES", existing: .init(realName: "notes.jpg"))
    #expect(
      RenamePlan.plan(hiding("photo", "photo.jpg"), to: other, in: caseless(["photo.jpg", "notes.jpg"]))
        == .move(from: "photo.jpg", to: "notes.jpg", exclusive: false))
  }

  @Test func nameOfPlansMaking_isRefusedWhereATwinWouldArise() {
    let names: [Name] = ["photo.jpg", "trip.jpg"]
    #expect(
      RenamePlan.plan(hiding("photo", "photo.jpg"), to: RenameTarget(typed: "TRIP"), in: caseless(names))
        == .refuse(.fileExists))
    #expect(
      CreatePlan.link(
        hiding("photo", "photo.jpg"), typed: "TRIP", sameDirectory: true, tunnelled: nil, in: caseless(names))
        == .refuse(.fileExists))
    // Its own name in another case.
    #expect(
      RenamePlan.plan(hiding("photo", "photo.jpg"), to: RenameTarget(typed: "PHOTO"), in: caseless(names))
        == .move(from: "photo.jpg", to: "PHOTO.jpg", exclusive: false))
    #expect(
      RenamePlan.plan(
        hiding("photo", "photo.jpg"), to: RenameTarget(typed: "PHOTO", sameDirectory: false),
        in: caseless(names))
        == .refuse(.fileExists))
    // It would be the twin of a third entry, beside the one that it replaces.
    let target = RenameTarget(typed: "trip", existing: .init(realName: "trip.png"))
    #expect(
      RenamePlan.plan(
        hiding("photo", "photo.jpg"), to: target, in: caseless(["photo.jpg", "trip.png", "TRIP.JPG"]))
        == .refuse(.fileExists))
    #expect(
      RenamePlan.plan(hiding("photo", "photo.jpg"), to: target, in: caseless(["photo.jpg", "trip.png"]))
        == .moveThenRemove(from: "photo.jpg", to: "trip.jpg", remove: "trip.png"))
  }
}
