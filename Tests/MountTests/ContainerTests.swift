import Glibc
import Testing

/// Trees that do not come from a Mac's volume.
@Suite(.mounting) struct ContainerTests {
  @Test func iOSContainer_showsApplicationAndDocuments() throws {
    let view = try MountedView("language=de") { root in
      for path in [
        "Documents/Inbox/mail.txt", "Documents/report.pdf", "Library/Caches/c.db",
        "Library/Preferences/p.plist", "tmp/t",
        "SystemData/x",
      ] { try put("x", at: "\(root)/\(path)") }
      try TestTree.application("\(root)/MyApp.app", named: "MyApp")
    }
    #expect(view.listing() == ["Documents", "MyApp"])
    #expect(view.listing("Documents") == ["Inbox", "report"])
    #expect(status(view.at("MyApp"))?.isRegular == true)
    #expect(text(view.at("Library/Caches/c.db")) == "x")
    #expect(Displayfs.run(["explain", view.at("tmp")]).text.contains("not meant for users"))
  }

  /// A view of an iCloud container, mounted where it would be found out to be one.
  private func cloudContainer(_ options: String = "") throws -> (view: MountedView, container: String) {
    let name = "com~example~app"
    let view = try MountedView { root in
      let container = "\(root)/Mobile Documents/\(name)"
      try put("x", at: "\(container)/Documents/Sub/letter.txt")
      try put("x", at: "\(container)/Documents/Trip.rtfd/TXT.rtf")
      try put("secret", at: "\(container)/Data/deep/store.db")
      try put("x", at: "\(container)/Cache/c")
      try put("x", at: "\(container)/state.plist")
    }
    view.unmount()
    let container = view.real("Mobile Documents/\(name)")
    let options = "language=en" + (options.isEmpty ? "" : ",\(options)")
    let outcome = Displayfs.run(["mount", "-o", options, container, view.mountPoint])
    try #require(outcome.status == 0, "\(outcome.errorText)")
    return (view, container)
  }

  @Test func containersInMacHomeLibrary_areTreatedAsContainers() throws {
    let library = "Users/anna/Library"
    let sandbox = "\(library)/Containers/org.example.App/Data"
    let cloud = "\(library)/Mobile Documents/iCloud~org~example"
    let drive = "\(library)/Mobile Documents/com~apple~CloudDocs"
    let view = try MountedView("language=en,profile=macos") { root in
      for path in [
        "\(sandbox)/Documents/Inbox/mail.txt", "\(sandbox)/Library/p.plist", "\(sandbox)/tmp/t",
        "\(cloud)/Documents/letter.txt", "\(cloud)/Data/store.db", "\(drive)/report.pdf", "\(drive)/Trips/a.txt",
      ] { try put("x", at: "\(root)/\(path)") }
    }
    #expect(view.listing(sandbox) == ["Documents"])
    #expect(view.shell("echo y >>'\(sandbox)/Documents/Inbox/mail.txt'").status != 0)
    #expect(view.shell("rm '\(sandbox)/Documents/Inbox/mail'").status == 0)
    #expect(view.listing(cloud) == ["Documents", "iCloud~org~example"])
    #expect(view.shell("tar -tf '\(cloud)/iCloud~org~example'").text.contains("Data/store.db"))
    #expect(view.listing(drive) == ["report", "Trips"])
  }

  @Test func iCloudContainer_showsDocumentsAndOneEntryForOtherData() throws {
    let (view, container) = try cloudContainer()
    #expect(view.listing() == ["Documents", "com~example~app"])
    #expect(view.listing("Documents") == ["Sub", "Trip"])
    #expect(view.listing("Documents/Sub") == ["letter"])
    #expect(status(view.at("com~example~app"))?.isRegular == true)
    let held = view.shell("tar -tf com~example~app").text.split(separator: "\n").map(String.init)
    #expect(
      Set(held) == [
        "./Cache/", "./Cache/c", "./Data/", "./Data/deep/", "./Data/deep/store.db", "./state.plist", "./",
      ])
    // The contents are still reachable by their real names.
    #expect(text(view.at("Data/deep/store.db")) == "secret")
    #expect(text(view.at("state.plist")) == "x")
    let explained = Displayfs.run(["explain", view.at("com~example~app")]).text
    #expect(explained.contains("beside the documents") && explained.contains("kind:         package"))
    #expect(explained.contains("real path:    \(container)\n"))
    #expect(Displayfs.run(["ls", "--source", container, container]).names == view.listing())
  }

  @Test func iCloudDataEntry_followsItsContents() throws {
    let (view, container) = try cloudContainer()
    let size = status(view.at("com~example~app"))?.st_size ?? 0
    try put(String(repeating: "y", count: 100_000), at: "\(container)/Data/deep/more")
    #expect(eventually { (status(view.at("com~example~app"))?.st_size ?? 0) > size + 100_000 })
    #expect(view.shell("tar -xOf com~example~app ./Data/deep/more | wc -c").text == "100000")
    #expect(view.shell("rm -r Data Cache state.plist").status == 0)
    #expect(view.listing() == ["Documents"])
    try put("x", at: "\(container)/new")
    #expect(view.listing() == ["Documents", "com~example~app"])
    // From now on another entry has the name.
    try put("x", at: "\(container)/com~example~app")
    #expect(view.listing() == ["Documents"])
    #expect(eventually { text(view.at("com~example~app")) == "x" })
  }

  @Test func iCloudDataEntry_isReadOnly() throws {
    let (view, container) = try cloudContainer()
    let name = "com~example~app"
    let before = Shell.run("find . -printf '%p %m %T@ %s\n' | sort", in: container).text
    for change in [
      "rm NAME", "mv NAME other", "mv NAME Documents/NAME", "mv Documents/Trip NAME", "chmod 700 NAME",
      "touch NAME", ": >NAME", "echo x >>NAME", "ln NAME other", "setfattr -n user.tag -v x NAME",
      "mkdir NAME",
    ] {
      let script = change.split(separator: "NAME", omittingEmptySubsequences: false).joined(separator: name)
      #expect(view.shell(script).status != 0, "\(script)")
    }
    #expect(Shell.run("find . -printf '%p %m %T@ %s\n' | sort", in: container).text == before)
    #expect(view.listing() == ["Documents", "com~example~app"])
  }

  @Test func iCloudDataEntry_withHiddenDenyOrShow_isAbsent() throws {
    let (view, _) = try cloudContainer("hidden=deny")
    #expect(view.listing() == ["Documents"])
    #expect(!isThere(view.at("com~example~app")) && !isThere(view.at("Data")))
    view.unmount()
    let (shown, _) = try cloudContainer("hidden=show")
    #expect(shown.listing() == ["Documents", "Data", "Cache", "state.plist"])
  }

  @Test func metadataOfMacArchives_isHidden() throws {
    let view = try MountedView("language=en") { root in
      for path in ["Trip/photo.jpg", "Trip/notes.txt"] { try put("x", at: "\(root)/\(path)") }
      for path in ["__MACOSX/._Trip", "__MACOSX/Trip/._photo.jpg", "Trip/._notes.txt"] {
        try put(TestTree.appleDouble(TestTree.finderInfo(0)), at: "\(root)/\(path)")
      }
      // A file named `__MACOSX` is a user's file, not metadata.
      try put("x", at: "\(root)/Trip/__MACOSX")
    }
    #expect(view.listing() == ["Trip"])
    #expect(view.listing("Trip") == ["photo", "notes", "__MACOSX"])
    #expect(view.shell("mv Trip/notes Trip/diary && rm -r Trip").status == 0)
    #expect(view.listing() == [])
    #expect(isThere(view.real("__MACOSX/._Trip")))
  }

  /// An archive of the Finder holds the data first, and all metadata in `__MACOSX`. Other programs unpack that directory beside
  /// the data. A Mac that copies the tree back puts the same metadata beside each file.
  @Test(.needing("python3")) func macArchive_unpackedByAnyProgram_showsNoMetadata() throws {
    let view = try MountedView("language=en") { root in
      func double(_ flags: UInt16) -> [UInt8] { TestTree.appleDouble(TestTree.finderInfo(flags)) }
      for place in ["other", "mac"] {
        try TestTree.application("\(root)/\(place)/Trip/Viewer.app", named: "Viewer")
        for path in ["Trip/photo.jpg", "Trip/secret.txt", "Trip/Letter.rtfd/TXT.rtf", "Trip/.DS_Store"] {
          try put("x", at: "\(root)/\(place)/\(path)")
        }
      }
      for path in ["._Trip", "Trip/._photo.jpg", "Trip/._.DS_Store", "Trip/Letter.rtfd/._TXT.rtf"] {
        try put(double(0), at: "\(root)/other/__MACOSX/\(path)")
        try put(double(0), at: "\(root)/mac/\(path)")
      }
      try put(double(0x4000), at: "\(root)/mac/Trip/._secret.txt")
      try put(double(0x4000), at: "\(root)/other/__MACOSX/Trip/._secret.txt")
      try put(double(0), at: "\(root)/mac/Trip/._gone.txt")
      _ = Shell.run("cd '\(root)' && python3 -m zipfile -c other.zip other/*", in: root)
      _ = Shell.run("python3 -m zipfile -e other.zip unpacked", in: root)
    }
    #expect(view.listing("mac") == ["Trip"])
    #expect(view.listing("mac/Trip") == ["photo", "Letter", "Viewer"])
    for place in ["other", "unpacked"] {
      #expect(view.listing(place) == ["Trip"])
      // Metadata in `__MACOSX` has no effect on a file outside of it.
      #expect(view.listing("\(place)/Trip") == ["photo", "secret", "Letter", "Viewer"])
    }
    #expect(view.shell("cp mac/Trip/Letter l.tar && tar -tf mac/Trip/Letter").text.contains("./TXT.rtf"))
    // Sidecars move with their files. A sidecar without its file stays.
    #expect(view.shell("mv mac/Trip/photo other/ && rm mac/Trip/Viewer mac/Trip/Letter").status == 0)
    #expect(view.realListing("other").isSuperset(of: ["photo.jpg", "._photo.jpg"]))
    #expect(
      view.realListing("mac/Trip") == [
        ".DS_Store", "._.DS_Store", "._gone.txt", "._secret.txt", "secret.txt",
      ])
  }

  @Test func desktopEntries_withDesktopNamesOption_showTheirNames() throws {
    func build(_ root: String) throws {
      let entry =
        "[Desktop Entry]\nType=Application\nName=Editor\nName[de]=Bearbeiter\nName[pt_BR]=Editor\\sde texto\n[Desktop Action x]\nName=Wrong\n"
      try put(entry, at: "\(root)/org.example.Editor.desktop")
      try put("[Desktop Entry]\nName[de] = Meine Fotos\nName=My Photos\n", at: "\(root)/photos/.directory")
      try put("[Desktop Entry]\nName=../evil\u{202e}\n", at: "\(root)/evil/.directory")
      try put("nothing", at: "\(root)/broken.desktop")
    }
    let view = try MountedView("language=de", build: build)
    #expect(view.listing() == ["org.example.Editor.desktop", "photos", "evil", "broken.desktop"])
    for (language, names) in [
      ("de", ["Bearbeiter", "Meine Fotos"]), ("pt-BR", ["Editor de texto", "My Photos"]),
      ("ja", ["Editor", "My Photos"]),
    ] as [(String, [FileName])] {
      view.unmount()
      try view.mount("language=\(language),desktop-names=on")
      #expect(view.listing() == Set(names + ["evil", "broken.desktop"]), "\(language)")
    }
    try put("[Desktop Entry]\nName=Album\n", at: view.real("photos/.directory"))
    try put("[Desktop Entry]\nName=Writer\n", at: view.real("org.example.Editor.desktop"))
    #expect(view.listing() == ["Writer", "Album", "evil", "broken.desktop"])
  }

  @Test func userDirectories_areNamedInLanguageOfView() throws {
    let view = try MountedView("language=fr,profile=home") { root in
      for name in ["Bilder", "Dokumente", "Videos"] { makeDirectory("\(root)/\(name)") }
      try put(
        "# written by xdg-user-dirs-update\nXDG_PICTURES_DIR=\"$HOME/Bilder\"\nXDG_DOCUMENTS_DIR=\"$HOME/Dokumente\"\n",
        at: "\(root)/.config/user-dirs.dirs")
    }
    #expect(view.listing() == ["Images", "Documents", "Videos"])
    // The user chooses another directory for the pictures.
    try put("XDG_PICTURES_DIR=\"$HOME/Videos\"\n", at: view.real(".config/user-dirs.dirs"))
    #expect(view.listing() == ["Bilder", "Dokumente", "Images"])
    unlink(view.real(".config/user-dirs.dirs"))
    #expect(view.listing() == ["Bilder", "Dokumente", "Videos"])
  }

  @Test func nestedUserDirectories_areNamedInLanguageOfView() throws {
    let view = try MountedView("language=fr,profile=home") { root in
      makeDirectory("\(root)/Media/Sound/Klassik")
      makeDirectory("\(root)/Media/Photos")
      try put(
        "XDG_MUSIC_DIR=\"$HOME/Media/Sound\"\nXDG_PICTURES_DIR=\"$HOME/Other/Photos\"\n",
        at: "\(root)/.config/user-dirs.dirs")
    }
    #expect(view.listing() == ["Media"])
    #expect(view.listing("Media") == ["Musique", "Photos"])
    #expect(view.listing("Media/Musique") == ["Klassik"])
    try put("XDG_PICTURES_DIR=\"$HOME/Media/Photos\"\n", at: view.real(".config/user-dirs.dirs"))
    #expect(view.listing("Media") == ["Sound", "Images"])
    // It goes where its directory goes.
    #expect(view.shell("mv Media Medien").status == 0)
    #expect(view.listing("Medien") == ["Sound", "Photos"])
  }
}
