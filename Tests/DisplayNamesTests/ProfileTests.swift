import Testing

@testable import DisplayNames

@Suite struct ProfileTests {
  private static let trees: [(SourceTraits, Profile)] = [
    ([.systemLibrary, .etc, .usr, .bin], Profile.macos), ([.applications, .users, .library], .macos),
    ([.etc, .usr, .bin, .tmp], .unix), ([.etc, .usr, .varDirectory], .unix), ([.etc, .usr], .plain),
    ([.isSomeUsersHome], .home), ([.isSomeUsersHome, .documents, .library, .tmp], .home),
    ([.xdgUserDirs], .home),
    ([.shellDotFiles, .documents], .home), ([.desktop, .documents, .library], .home),
    ([.documents, .library, .tmp], .ios), ([.sandboxData], .ios), ([.isCloudContainer, .documents], .icloud),
    ([.documents], .plain), ([.documents, .library], .plain), ([.library, .tmp, .bin], .plain), ([], .plain),
  ]

  @Test(arguments: trees)
  func detect_choosesProfileByTraitsOfSource(traits: SourceTraits, expected: Profile) {
    #expect(Profile.detect(traits) == expected)
  }

  private static let places: [(Profile, [Name], DirectoryRole)] = [
    (Profile.macos, [], DirectoryRole.macVolumeRoot), (.macos, ["Users"], .usersDirectory),
    (.macos, ["Users", "anna"], .home),
    (.macos, ["Users", "Shared"], []), (.macos, ["Users", "anna", "Users"], []), (.macos, ["Library"], []),
    (.macos, ["home", "anna"], []), (.macos, ["Volumes", "Data"], .macVolumeRoot), (.macos, ["Volumes"], []),
    (.unix, [], .unixRoot), (.unix, ["home"], .usersDirectory), (.unix, ["home", "anna"], .home),
    (.unix, ["home", "lost+found"], []), (.unix, ["root"], .home), (.unix, ["Users", "anna"], []),
    (.unix, ["srv", "home"], []), (.home, [], .home), (.home, ["anna"], []), (.ios, [], .container),
    (.ios, ["Data"], .container), (.ios, ["Documents"], []), (.icloud, [], .cloudContainer), (.plain, [], []),
    (.none, [], []), (.auto, [], []), (.unix, ["home", "anna", "x"], []),
    (.macos, ["Volumes", "Data", "x"], []),
    (.macos, ["Users", "anna", "Library"], []), (.macos, ["Users", "anna", "Library", "Containers"], []),
    (.macos, ["Users", "anna", "Library", "Containers", "org.app"], .container),
    (.macos, ["Users", "anna", "Library", "Containers", "org.app", "Data"], .container),
    (.macos, ["Users", "anna", "Library", "Containers", "org.app", "Documents"], []),
    (.macos, ["Users", "anna", "Library", "Containers", "org.app", "Data", "Data"], []),
    (.macos, ["Users", "Shared", "Library", "Containers", "org.app"], []),
    (.home, ["Library", "Containers", "org.app", "Data"], .container),
    (.home, ["Library", "Mobile Documents", "iCloud~org~app"], .cloudContainer),
    (.home, ["Library", "Mobile Documents", "iCloud~org~app", "Documents"], []),
    (.home, ["Library", "Mobile Documents", "com~apple~CloudDocs"], []),
    (.home, ["Library", "Mobile Documents", "folder"], []), (.home, ["Library", "Containers"], []),
    (.plain, ["Library", "Containers", "org.app"], []),
  ]

  @Test(arguments: places)
  func placeOfPath_followsProfile(profile: Profile, path: [Name], expected: DirectoryRole) {
    #expect(profile.role(ofPath: path) == expected)
  }
}

@Suite struct ViewOptionsTests {
  @Test func set_parsesOptionText() throws {
    var options = ViewOptions()
    for (name, value) in [
      ("extensions", "flag"), ("hidden", "deny"), ("packages", "directory"), ("profile", "none"),
      ("language", "de-AT:de"),
    ] {
      let isOption = try options.set(name, to: value)
      #expect(isOption)
    }
    let isForeign = try options.set("allow_other", to: "")
    #expect(!isForeign)
    #expect(options.extensions == .flag && options.hidden == .deny && options.packages == .directory)
    #expect(options.profile == .none && options.languages.map(\.description) == ["de-AT", "de"])
  }

  @Test(arguments: [
    ("extensions", "hide, all, flag, show"), ("hidden", "reach, deny, show"), ("packages", "file, directory"),
    ("profile", "auto, macos, home, unix, ios, icloud, plain, none"), ("normalization", "nfc, off"),
    ("matching", "exact, canonical, caseless"),
  ])
  func set_ofInvalidValue_reportsAllowedValues(name: String, allowed: String) {
    var options = ViewOptions()
    let before = options
    for value in ["", "Hide", "x"] {
      do {
        _ = try options.set(name, to: value)
        Issue.record("\(name)=\(value) was accepted")
      } catch {
        #expect(error.description.hasSuffix("use one of: " + allowed))
        #expect(error.description.hasPrefix("\(name)=\(value):"))
      }
    }
    #expect(options == before)
  }

  @Test func resolvedOptions_ofProfileNone_makeMirror() throws {
    var options = ViewOptions()
    _ = try options.set("language", to: "de")
    #expect(options.resolved(.macos).profile == .macos)
    #expect(options.resolved(.macos).extensions == .hide)
    options.profile = .home
    #expect(options.resolved(.macos).profile == .home)
    options.profile = .none
    let mirror = options.resolved(.macos)
    #expect(mirror.extensions == .show && mirror.hidden == .show && mirror.packages == .directory)
    #expect(mirror.languages.isEmpty)
    #expect(options.normalization == .nfc && options.matching == .canonical)
    #expect(mirror.normalization == .off && mirror.matching == .exact)
  }
}
