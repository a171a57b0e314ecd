import Glibc
import Testing

/// Trees that come from elsewhere than a Mac's volume.
@Suite(.mounting) struct ContainerTests {
  @Test func anIOSContainerShowsTheApplicationAndItsDocuments() throws {
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

  @Test func anICloudContainerShowsDocumentsAndOneEntryForTheRest() throws {
    let view = try MountedView("language=en") { root in
      try put("x", at: "\(root)/Mobile Documents/com~example~app/Documents/Sub/letter.txt")
      try put("x", at: "\(root)/Mobile Documents/com~example~app/Documents/Trip.rtfd/TXT.rtf")
      try put("secret", at: "\(root)/Mobile Documents/com~example~app/Data/deep/store.db")
      try put("x", at: "\(root)/Mobile Documents/com~example~app/state.plist")
    }
    view.unmount()
    let container = view.real("Mobile Documents/com~example~app")
    #expect(Displayfs.run(["mount", "-o", "language=en", container, view.mountPoint]).status == 0)
    #expect(view.listing() == ["Documents", "Data"])
    #expect(view.listing("Documents") == ["Sub", "Trip"])
    #expect(view.listing("Documents/Sub") == ["letter"])
    #expect(view.shell("tar -tf Data | grep -c store.db").text == "1")
    #expect(status(view.at("Data"))?.isRegular == true)
  }

  @Test func whatMacArchivesCarryIsOutOfSight() throws {
    let view = try MountedView("language=en") { root in
      for path in ["Trip/photo.jpg", "Trip/notes.txt"] { try put("x", at: "\(root)/\(path)") }
      for path in ["__MACOSX/._Trip", "__MACOSX/Trip/._photo.jpg", "Trip/._notes.txt"] {
        try put(TestTree.appleDouble(TestTree.finderInfo(0)), at: "\(root)/\(path)")
      }
      // A file of that name is somebody's own.
      try put("x", at: "\(root)/Trip/__MACOSX")
    }
    #expect(view.listing() == ["Trip"])
    #expect(view.listing("Trip") == ["photo", "notes", "__MACOSX"])
    #expect(view.shell("mv Trip/notes Trip/diary && rm -r Trip").status == 0)
    #expect(view.listing() == [])
    #expect(isThere(view.real("__MACOSX/._Trip")))
  }

  @Test func desktopEntriesNameThemselvesWhereAskedFor() throws {
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

  @Test func userDirectoriesAreNamedInTheViewsLanguage() throws {
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
}
