import Testing

@testable import DisplayNames

private func reason(
  _ name: String, _ role: DirectoryRole = [], _ kind: EntryKind = .directory, facts: HiddenFacts = [],
  rules: HiddenRules = HiddenRules()
) -> HiddenReason? {
  let bytes = Array(name.utf8)
  return rules.reason(name: bytes.span, kind: kind, role: role, facts: facts)
}

@Suite struct HiddenRulesTests {
  @Test(arguments: [
    (".bashrc", HiddenReason.dotFile), (".DS_Store", .dotFile), (".localized", .dotFile),
    ("._orphan", .dotFile),
    ("Icon\r", .iconFile), ("$RECYCLE.BIN", .windowsFile), ("Thumbs.db", .windowsFile),
    ("desktop.ini", .windowsFile), ("Desktop.ini", .windowsFile),
  ])
  func metadataNames_areHiddenEverywhere(name: String, expected: HiddenReason) {
    for role in [DirectoryRole(), .macVolumeRoot, .unixRoot, .home, .usersDirectory, .container] {
      #expect(reason(name, role, .file) == expected)
    }
  }

  @Test(arguments: [
    (HiddenFacts.appleDouble, HiddenReason.appleDouble), (.finderInvisible, .finderInvisible),
    (.dosHidden, .dosHidden), (.inHiddenList, .hiddenList), (.configured, .configured),
  ])
  func metadataFacts_hideAnyName(fact: HiddenFacts, expected: HiddenReason) {
    #expect(reason("x", facts: fact) == expected)
    #expect(reason("x", facts: fact, rules: HiddenRules(disabling: [expected])) == nil)
    #expect(reason("._x", facts: .appleDouble) == .appleDouble)
  }

  @Test(arguments: [
    "bin", "cores", "dev", "etc", "home", "net", "opt", "private", "sbin", "tmp", "usr", "var",
  ])
  func unixDirectories_areHiddenAtMacRootOnly(name: String) {
    #expect(reason(name, .macVolumeRoot) == .unixDirectory)
    #expect(reason(name, .macVolumeRoot, .symlink) == .unixDirectory)
    #expect(reason(name, .macVolumeRoot, .file) == nil)
    #expect(reason(name) == nil)
    #expect(reason(name, .home) == nil)
  }

  @Test(arguments: [
    "AppleShare PDS", "automount", "Cleanup At Startup", "Desktop DB", "Desktop DF", "Desktop Folder", "mach",
    "mach.sym", "mach_kernel", "mach_kernel.ctfsys", "Network", "Temporary Items", "TheFindByContentFolder",
    "TheVolumeSettingsFolder", "Trash", "\u{3}\u{2}\u{1}Move&Rename", "Network Trash Folder",
    "installer.failurerequests",
  ])
  func supportItems_areHiddenAtMacRootOnly(name: String) {
    #expect(reason(name, .macVolumeRoot, .file) == .volumeRootName)
    #expect(reason(name, .unixRoot, .file) == nil)
    #expect(reason(name) == nil)
  }

  @Test(arguments: ["Applications", "Library", "System", "Users", "Developer", "Bin", "volumes"])
  func otherNamesAtMacRoot_areVisible(name: String) {
    #expect(reason(name, .macVolumeRoot) == nil)
  }

  @Test(arguments: [
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "lost+found", "media", "mnt", "opt",
    "proc",
    "root", "run", "sbin", "snap", "srv", "sys", "tmp", "usr", "var",
  ])
  func linuxDirectories_areHiddenAtLinuxRootOnly(name: String) {
    #expect(reason(name, .unixRoot) == .unixDirectory)
    #expect(reason(name) == nil)
  }

  @Test func homeAtLinuxRoot_isVisible() {
    #expect(reason("home", .unixRoot) == nil)
  }

  @Test func volumesAndLibrary_areHiddenAtTheirPlaceOnly() {
    #expect(reason("Volumes", .macVolumeRoot) == .volumes)
    #expect(reason("Volumes", .home) == nil)
    #expect(reason("Library", .home) == .homeLibrary)
    #expect(reason("Library", .home, .file) == nil)
    #expect(reason("Library", .macVolumeRoot) == nil)
    #expect(reason("Library", .usersDirectory) == nil)
    #expect(reason("library", .home) == nil)
  }

  @Test func container_showsDocumentsAndHidesSupport() {
    #expect(reason("Library", .container) == .containerSupport)
    #expect(reason("tmp", .container) == .containerSupport)
    #expect(reason("Documents", .container) == nil)
  }

  @Test func everyHiddenRule_canBeDisabled() {
    let none = HiddenRules(disabling: HiddenReason.allCases)
    for name in [".a", "Icon\r", "Thumbs.db", "bin", "Volumes", "Library", "Desktop DB", "tmp"] {
      #expect(reason(name, [.macVolumeRoot, .unixRoot, .home, .container], rules: none) == nil)
    }
    #expect(reason("x", facts: HiddenFacts(rawValue: .max), rules: none) == nil)
    #expect(reason(".a", rules: HiddenRules(disabling: [.iconFile])) == .dotFile)
  }

  @Test func everyHiddenReason_hasItsOwnSentence() {
    for reason in HiddenReason.allCases { #expect(reason.explanation.hasSuffix(".")) }
    #expect(Set(HiddenReason.allCases.map(\.explanation)).count == HiddenReason.allCases.count)
  }
}
