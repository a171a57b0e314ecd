import DisplayNames
import Testing

@Suite struct StandardDirectoryTests {
  private func path(_ text: String) -> [Name] { text.split(separator: "/").map { Name(String($0)) } }

  private func options(_ profile: Profile) -> ViewOptions {
    var options = ViewOptions()
    options.profile = profile
    return options
  }

  @Test func standardDirectories_haveAPurposeInTheirDomain() {
    func purpose(_ text: String, _ profile: Profile) -> String? {
      StandardDirectory.purpose(ofPath: path(text), options(profile))
    }
    #expect(purpose("Users", .macos)?.contains("home directory") == true)
    #expect(purpose("Users/anna/Documents", .macos)?.contains("user's documents") == true)
    #expect(purpose("Users/anna/Library/Caches", .macos)?.contains("emptied") == true)
    #expect(purpose("Library/Caches", .macos)?.contains("emptied") == true)
    #expect(purpose("Documents", .home)?.contains("user's documents") == true)
    #expect(purpose("Documents/Inbox", .ios)?.contains("not change them") == true)
    for (text, profile) in [
      ("Documents/Inbox", Profile.home), ("Users/anna", .macos), ("Music", .macos), ("Documents", .plain),
      ("", .home),
      ("Users/anna/Documents/Documents", .macos),
    ] {
      #expect(purpose(text, profile) == nil, "\(text)")
    }
  }

  @Test func cachesAndTemporaryFiles_areLeftOutOfBackups() {
    func isLeftOut(_ text: String, _ profile: Profile) -> Bool {
      StandardDirectory.isLeftOutOfBackups(path(text), options(profile))
    }
    for (text, profile) in [
      ("Library/Caches", Profile.ios), ("Library/Caches/a/b", .ios), ("tmp", .ios), ("tmp/x", .ios),
      ("Library/Caches/x", .home),
      ("Users/anna/Library/Caches/x", .macos), ("System/Library/Caches", .macos),
      ("Users/anna/.Trash/x", .macos),
    ] {
      #expect(isLeftOut(text, profile), "\(text)")
    }
    for (text, profile) in [
      ("Library", Profile.ios), ("Documents/tmp", .ios), ("tmp", .home), ("Caches", .home),
      ("Library/Caches", .plain), ("", .ios),
    ] {
      #expect(!isLeftOut(text, profile), "\(text)")
    }
  }
}
