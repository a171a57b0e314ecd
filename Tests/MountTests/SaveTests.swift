import CLinux
import Glibc
import SystemPackage
import Testing

/// The system calls with which a program saves the file `report` in a directory, all from this one process, as the
/// program's own were seen with strace.
struct Save: Sendable, CustomTestStringConvertible {
  let program: String
  /// What is in the backing directory afterwards, beside `report.txt`.
  let left: Set<FileName>
  let calls: @Sendable (SaveDirectory) throws -> Void

  init(
    _ program: String, leaving left: Set<FileName> = [],
    _ calls: @escaping @Sendable (SaveDirectory) throws -> Void
  ) {
    (self.program, self.left, self.calls) = (program, left, calls)
  }

  var testDescription: String { program }

  static let all = [
    Save("nano") { try $0.write("report", O_TRUNC) },
    Save("nano -B") {
      try $0.copy("report", to: "report~")
      try $0.write("report", O_TRUNC)
    },
    Save("vim", leaving: []) {
      try $0.create(".report.swp")
      try $0.create("4913")
      try $0.remove("4913")
      #expect(throws: Errno.noSuchFileOrDirectory) { [directory = $0] in try directory.remove("report~") }
      try $0.move("report", "report~")
      try $0.write("report", O_TRUNC)
      try $0.remove("report~")
      try $0.remove(".report.swp")
    },
    Save("vim, backupcopy=yes") {
      try $0.copy("report", to: "report~")
      try $0.write("report", 0)
      try $0.remove("report~")
    },
    Save("nvim") {
      try $0.create("4913")
      try $0.remove("4913")
      try $0.move("report", "report~")
      try $0.write("report", O_TRUNC)
      try $0.remove("report~")
    },
    Save("emacs, first save", leaving: ["report~.txt"]) {
      try $0.makeLink(".#report")
      try $0.move("report", "report~")
      try $0.write("report", O_TRUNC)
      try $0.remove(".#report")
    },
    Save("emacs, later saves") {
      try $0.makeLink(".#report")
      try $0.write("report", O_TRUNC)
      try $0.remove(".#report")
    },
    Save("emacs, file-precious-flag") {
      try $0.write("tmpAB12CD", O_EXCL)
      try $0.move("tmpAB12CD", "report")
    },
    Save("g_file_replace") {
      $0.expectTaken("report")
      try $0.write(".goutputstream-AB12CD", O_EXCL)
      try $0.move(".goutputstream-AB12CD", "report")
    },
    Save("g_file_replace with a backup", leaving: ["report~.txt"]) {
      $0.expectTaken("report")
      try $0.write(".goutputstream-AB12CD", O_EXCL)
      try $0.hardLink("report", "report~")
      try $0.move(".goutputstream-AB12CD", "report")
    },
    Save("LibreOffice") {
      try $0.create(".~lock.report#")
      try $0.write("lu123ab.tmp", O_EXCL)
      $0.expectTaken("report")
      try $0.move("lu123ab.tmp", "report")
      try $0.allow("report", 0o644)
      try $0.remove(".~lock.report#")
    },
    Save("sed -i") {
      try $0.write("sedAB12CD", O_EXCL)
      try $0.move("sedAB12CD", "report")
    },
    Save("sed -i~", leaving: ["report~.txt"]) {
      try $0.write("sedAB12CD", O_EXCL)
      try $0.move("report", "report~")
      try $0.move("sedAB12CD", "report")
    },
    Save("perl -i~", leaving: ["report~.txt"]) {
      try $0.write("XXAB12CD", O_EXCL)
      try $0.hardLink("report", "report~")
      try $0.move("XXAB12CD", "report")
    },
    Save("os.replace") {
      try $0.write("report.tmp", O_EXCL)
      try $0.move("report.tmp", "report")
    },
    Save("VS Code") { try $0.write("report", O_TRUNC) },
    Save("VS Code, settings") {
      try $0.write("report.vsctmp", O_TRUNC)
      try $0.move("report.vsctmp", "report")
    },
    Save("rsync -a") {
      try $0.write(".report.AB12CD", O_EXCL)
      try $0.move(".report.AB12CD", "report")
    },
    Save("rsync -b", leaving: ["report~.txt"]) {
      try $0.write(".report.AB12CD", O_EXCL)
      try $0.hardLink("report", "report~")
      try $0.move(".report.AB12CD", "report")
    },
    Save("cp -b", leaving: ["report~.txt"]) {
      try $0.move("report", "report~")
      try $0.write("report", O_EXCL)
    },
    Save("cp --remove-destination, tar -x, git checkout") {
      try $0.remove("report")
      try $0.write("report", O_EXCL)
    },
    Save("unzip -o") {
      try $0.remove("report")
      try $0.write("report", O_TRUNC)
    },
    Save("mv") {
      try $0.write("draft", O_EXCL)
      #expect(throws: Errno.fileExists) { [directory = $0] in
        try directory.move("draft", "report", dfs_RENAME_NOREPLACE)
      }
      try $0.move("draft", "report")
    },
    Save("a browser's download") {
      try $0.write("report.part", O_EXCL)
      try $0.move("report.part", "report")
    },
  ]
}

struct SaveDirectory: Sendable {
  let path: String
  /// What takes the place of `report` in the names.
  var report = "report"

  private func at(_ name: String) -> String { "\(path)/\(renamed(name))" }

  func renamed(_ name: String) -> String {
    name.split(separator: "report", omittingEmptySubsequences: false).joined(separator: report)
  }

  func write(_ name: String, _ flags: CInt) throws {
    let file = try OpenFile(at(name), O_WRONLY | O_CREAT | flags)
    #expect(file.write("new") == 3)
    #expect(ftruncate(file.descriptor, 3) == 0)
    #expect(fsync(file.descriptor) == 0)
  }

  func create(_ name: String) throws { _ = try OpenFile(at(name), O_RDWR | O_CREAT | O_EXCL) }

  func copy(_ name: String, to copy: String) throws {
    let file = try OpenFile(at(copy), O_WRONLY | O_CREAT | O_EXCL)
    file.write(text(at(name)) ?? "")
  }

  func expectTaken(_ name: String) {
    #expect(throws: Errno.fileExists) { try create(name) }
    #expect(throws: Never.self) { try OpenFile(at(name), O_RDWR) }
  }

  func remove(_ name: String) throws { try check(unlink(at(name))) }

  func move(_ name: String, _ new: String, _ flags: CUnsignedInt = 0) throws {
    try check(dfs_renameat(AT_FDCWD, at(name), AT_FDCWD, at(new), flags))
  }

  func hardLink(_ name: String, _ new: String) throws { try check(link(at(name), at(new))) }

  func makeLink(_ name: String) throws { try check(symlink("anna@host.1:2", at(name))) }

  func allow(_ name: String, _ mode: mode_t) throws { try check(chmod(at(name), mode)) }

  private func check(_ result: CInt) throws { if result != 0 { throw Errno(rawValue: errno) } }
}

@Suite(.mounting) struct SaveTests {
  private func view(_ options: String = "") throws -> MountedView {
    try MountedView(options) { root in
      try put("old", at: "\(root)/report.txt")
      makeDirectory("\(root)/Sub")
    }
  }

  @Test(arguments: Save.all) func saveThroughDisplayName_keepsExtension(_ save: Save) throws {
    let view = try view()
    // Twice, as people do.
    for _ in 0..<2 {
      try put("old", at: view.real("report.txt"))
      for left in save.left { unlink(view.real("\(left)")) }
      try save.calls(SaveDirectory(path: view.mountPoint))
      #expect(text(view.real("report.txt")) == "new")
      #expect(text(view.at("report")) == "new")
      let expected = save.left.union(["report.txt", "Sub"])
      if save.program == "nano -B" {
        // A copy under a name of its own making has no extension to keep.
        #expect(view.realListing() == expected.union(["report~"]))
        unlink(view.real("report~"))
      } else {
        #expect(view.realListing().difference(from: expected) == nil)
      }
      for left in save.left { #expect(text(view.real("\(left)")) == "old") }
    }
  }

  @Test(arguments: Save.all, ["", "extensions=show"])
  func saveThroughComposedName_keepsDecomposedBytes(_ save: Save, options: String) throws {
    let real = options.isEmpty ? "re\u{301}port.txt" : "re\u{301}port"
    let view = try MountedView(options) { root in try put("old", at: "\(root)/\(real)") }
    let directory = SaveDirectory(path: view.mountPoint, report: "r\u{e9}port")
    for _ in 0..<2 {
      try save.calls(directory)
      #expect(text(view.real(real)) == "new" && text(view.at("r\u{e9}port")) == "new")
      var left = save.left.map { directory.renamed("\($0)") }
      if !options.isEmpty { left = left.map { String($0.dropLast(4)) } }
      if save.program == "nano -B" { left = ["r\u{e9}port~"] }
      #expect(view.realListing().difference(from: Set((left + [real]).map { FileName($0) })) == nil)
      for name in left { unlink(view.real(name)) }
      try put("old", at: view.real(real))
    }
  }

  @Test(arguments: Save.all, ["REPORT", "Report.TXT"])
  func saveThroughMatchingName_keepsBytes(_ save: Save, typed: String) throws {
    let view = try MountedView("matching=caseless") { root in try put("old", at: "\(root)/report.txt") }
    for _ in 0..<2 {
      try save.calls(SaveDirectory(path: view.mountPoint, report: typed))
      #expect(text(view.real("report.txt")) == "new")
      #expect(text(view.at("report")) == "new" && text(view.at(typed)) == "new")
      let others = view.realListing().subtracting(["report.txt"])
      #expect(others.isSubset(of: ["\(typed)~", "\(typed)~.txt"].map { FileName($0) }), "\(others)")
      for name in others { unlink(view.real("\(name)")) }
      try put("old", at: view.real("report.txt"))
    }
  }

  /// Its old real name would be shown in full there.
  @Test(arguments: [false, true])
  func saveAmongRivals_keepsTypedName(isMovedIn: Bool) throws {
    let view = try view()
    let shown = view.at("report")
    #expect(unlink(shown) == 0)
    try put("photo", at: view.at("report.jpg"))
    try put("photo", at: view.at("report.png"))
    try put("new", at: isMovedIn ? view.at("draft") : shown)
    if isMovedIn { #expect(rename(view.at("draft"), shown) == 0) }
    #expect(text(shown) == "new")
    #expect(view.realListing() == ["report", "report.jpg", "report.png", "Sub"])
  }

  @Test(arguments: Save.all) func saveThroughRealName_keepsIt(_ save: Save) throws {
    let view = try MountedView("extensions=show") { root in try put("old", at: "\(root)/report") }
    try save.calls(SaveDirectory(path: view.mountPoint))
    #expect(text(view.real("report")) == "new")
  }

  @Test(arguments: [
    "vim", "nvim", "emacs, first save", "cp -b", "sed -i~", "unzip -o",
    "cp --remove-destination, tar -x, git checkout", "emacs, file-precious-flag", "g_file_replace",
    "g_file_replace with a backup", "LibreOffice", "sed -i", "perl -i~", "os.replace", "VS Code, settings",
    "rsync -a", "rsync -b", "mv", "a browser's download",
  ])
  func save_restoresFinderInfo(program: String) throws {
    let view = try view()
    let info = TestTree.finderInfo(0x000c)
    try #require(setAttribute("user.com.apple.FinderInfo", to: info, of: view.real("report.txt")) == nil)
    let save = try #require(Save.all.first { $0.program == program })
    try save.calls(SaveDirectory(path: view.mountPoint))
    #expect(attributeBytes("user.com.apple.FinderInfo", of: view.real("report.txt")) == info)
  }

  @Test func save_withOwnFinderInfo_keepsIt() throws {
    let view = try view()
    let (old, own) = (TestTree.finderInfo(0x000c), TestTree.finderInfo(0x0002))
    try #require(setAttribute("user.com.apple.FinderInfo", to: old, of: view.real("report.txt")) == nil)
    try put("new", at: view.at("draft"))
    try #require(setAttribute("user.com.apple.FinderInfo", to: own, of: view.at("draft")) == nil)
    try SaveDirectory(path: view.mountPoint).move("draft", "report")
    #expect(attributeBytes("user.com.apple.FinderInfo", of: view.real("report.txt")) == own)
  }

  /// By the spelling of the disk, and by that of the listing.
  @Test(arguments: [("cafe\u{301}", "caf\u{e9}"), ("caf\u{e9}", "cafe\u{301}")])
  func tunnel_betweenEqualNames_givesRealNameBack(removed: String, made: String) throws {
    let view = try MountedView { root in try put("old", at: "\(root)/cafe\u{301}.txt") }
    #expect(failure { unlink(view.at(removed)) } == nil)
    try put("new", at: view.at(made))
    #expect(view.realListing() == ["cafe\u{301}.txt"])
    #expect(text(view.real("cafe\u{301}.txt")) == "new")
  }

  @Test func tunnelByProcess_givesNoNameToAnotherProcess() throws {
    let view = try view()
    #expect(view.shell("rm report; printf new >report").status == 0)
    #expect(view.realListing() == ["report", "Sub"])
    #expect(unlink(view.at("report")) == 0)
    try put("old", at: view.real("notes.txt"))
    #expect(unlink(view.at("notes")) == 0)
    #expect(view.shell("printf new >notes").status == 0)
    #expect(view.realListing() == ["notes", "Sub"])
  }

  @Test func tunnelByTime_givesNameToEveryProcess() throws {
    let view = try view("tunnel=time")
    #expect(view.shell("rm report; printf new >report").status == 0)
    #expect(text(view.real("report.txt")) == "new")
    #expect(view.realListing() == ["report.txt", "Sub"])
  }

  @Test func tunnelOff_givesNewFileTypedName() throws {
    let view = try view("tunnel=off")
    let directory = SaveDirectory(path: view.mountPoint)
    try directory.remove("report")
    try directory.write("report", O_EXCL)
    #expect(view.realListing() == ["report", "Sub"])
  }

  @Test func tunnel_afterTimeout_givesNewFileTypedName() throws {
    let view = try view("tunnel-timeout=1")
    let directory = SaveDirectory(path: view.mountPoint)
    try directory.remove("report")
    usleep(1_200_000)
    try directory.write("report", O_EXCL)
    #expect(view.realListing() == ["report", "Sub"])
  }

  @Test func tunnel_givesNameOnceToFileInSameDirectory() throws {
    let view = try view()
    let directory = SaveDirectory(path: view.mountPoint)
    try directory.remove("report")
    #expect(failure { mkdir(view.at("report"), 0o755) } == nil)
    #expect(view.realListing() == ["report", "Sub"])
    #expect(rmdir(view.at("report")) == 0)
    try directory.makeLink("report")
    #expect(view.realListing() == ["report", "Sub"])
    try directory.remove("report")
    try SaveDirectory(path: view.at("Sub")).write("report", O_EXCL)
    #expect(view.realListing("Sub") == ["report"])
    try directory.write("report", O_EXCL)
    #expect(view.realListing() == ["report.txt", "Sub"])
    // Removed by its real name: what was typed is what is meant.
    try directory.remove("report.txt")
    try directory.write("report", O_EXCL)
    #expect(view.realListing() == ["report", "Sub"])
  }

  /// Another process gives the name to a file that has it as its real name. A save keeps that.
  @Test(arguments: [
    "os.unlink('report')", "os.rename('report', 'report~')",
  ])
  func tunnel_afterAnotherFileHadTheName_givesNoNameBack(removal: String) throws {
    let view = try view()
    let saved = PythonProgram(
      """
      os.rename("report", "kept")
      with open("\(view.real("report"))", "x") as other: other.write("other")
      while os.listdir(".").count("report") == 0: time.sleep(0.01)
      \(removal)
      with open("report", "x") as new: new.write("new")
      """, in: view.mountPoint
    ).run()
    #expect(saved.status == 0, "\(saved.complaint)")
    #expect(text(view.real("report")) == "new")
    #expect(!view.realListing().contains("report.txt"))
  }

  @Test(arguments: [
    "sed -i s/old/new/ report", "printf new >new; mv -f new report", "printf new >new; cp new report; rm new",
    "printf new >new; cp --remove-destination new report; rm new",
    "printf new >new; install -m 644 new report; rm new",
    "printf new >.n; cp -b .n report; rm .n report~",
    "mkdir .t && printf new >.t/report && tar -cf .t.tar -C .t report && tar -xf .t.tar; rm -r .t .t.tar",
    "python3 -c \"import os; open('report.new','w').write('new'); os.replace('report.new','report')\"",
    "printf new | dd of=report conv=fsync 2>/dev/null",
  ])
  func commonTools_saveAndKeepExtension(script: String) throws {
    let view = try view()
    let outcome = view.shell(script)
    #expect(outcome.status == 0, "\(outcome.errorText)")
    #expect(text(view.real("report.txt")) == "new")
    #expect(view.realListing() == ["report.txt", "Sub"])
  }

  @Test func compilerOutput_doesNotReplaceSource() throws {
    let view = try MountedView { root in try put("int main(void) { return 0; }\n", at: "\(root)/foo.c") }
    let compiled = view.shell("command -v gcc >/dev/null || exit 99; gcc -o foo foo.c && ./foo")
    if compiled.status == 99 { return }
    #expect(compiled.status == 0, "\(compiled.errorText)")
    #expect(text(view.real("foo.c")) == "int main(void) { return 0; }\n")
    #expect(view.realListing() == ["foo.c", "foo"])
  }
}
