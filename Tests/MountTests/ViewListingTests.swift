import Glibc
import SystemPackage
import Testing

@Suite(.mounting) struct ViewListingTests {
  private static let languages = ["de", "en", "fr", "ja", "nb", "zh-Hans", "es", "pt", "sv"]

  /// What is shown under its localized name, in the order of `languages`.
  private static let localized: [(directory: String, names: [[FileName]])] = [
    (
      "",
      [
        ["Programme", "Library", "Benutzer", "System"], ["Applications", "Library", "Users", "System"],
        ["Applications", "Bibliothèque", "Utilisateurs", "System"], ["アプリケーション", "ライブラリ", "ユーザ", "System"],
        ["Apper", "Bibliotek", "Brukere", "System"], ["应用程序", "资源库", "用户", "System"],
        ["Aplicaciones", "Biblioteca", "Usuarios", "System"],
        ["Aplicativos", "Biblioteca", "Usuários", "System"], ["Appar", "Bibliotek", "Användare", "System"],
      ]
    ),
    (
      "Users",
      [
        ["Geteilt", "anna"], ["Shared", "anna"], ["Partagé", "anna"], ["共有", "anna"], ["Delt", "anna"],
        ["共享", "anna"], ["Compartido", "anna"], ["Compartilhado", "anna"], ["Delad", "anna"],
      ]
    ),
    (
      "Users/anna",
      [
        [
          "Programme", "Schreibtisch", "Dokumente", "Downloads", "Filme", "Musik", "Bilder", "Öffentlich",
          "Eigene Websites", "Containers",
        ],
        [
          "Applications", "Desktop", "Documents", "Downloads", "Movies", "Music", "Pictures", "Public",
          "Sites",
          "Containers",
        ],
        [
          "Applications", "Bureau", "Documents", "Téléchargements", "Vidéos", "Musique", "Images", "Public",
          "Mes sites",
          "Containers",
        ],
        [
          "アプリケーション", "デスクトップ", "書類", "ダウンロード", "ムービー", "ミュージック", "ピクチャ", "パブリック",
          "私のサイト", "Containers",
        ],
        [
          "Apper", "Skrivebord", "Dokumenter", "Nedlastinger", "Filmer", "Musikk", "Bilder", "Felles",
          "Mine nettsteder", "Containers",
        ],
        ["应用程序", "桌面", "文稿", "下载", "影片", "音乐", "图片", "公共", "我的站点", "Containers"],
        [
          "Aplicaciones", "Escritorio", "Documentos", "Descargas", "Vídeos", "Música", "Imágenes", "Pública",
          "Sitios", "Containers",
        ],
        [
          "Aplicativos", "Mesa", "Documentos", "Downloads", "Filmes", "Música", "Imagens", "Pública",
          "Meus sites", "Containers",
        ],
        [
          "Appar", "Skrivbord", "Dokument", "Hämtade filer", "Filmer", "Musik", "Bilder", "Delad",
          "Mina webbplatser", "Containers",
        ],
      ]
    ),
    ("Users/anna/Downloads", [[FileName]](repeating: [], count: 9)),
    ("Users/anna/Pictures", [[FileName]](repeating: [], count: 9)),
  ]

  private static let extensionModes = ["hide", "all", "flag", "show"]

  /// What Documents shows in each of `extensionModes`, but for the directory with a localized name.
  private static let documents: [[FileName]] = [
    [
      "A.framework", "Bare.localized", "Evil", "Letter", "Lib", "Music", "My", "New", "NoLang", "Old",
      "Straße", "a",
      "a. b", "a:b", "app", "archive.tar.gz", "bitpkg", "\u{e9}", "flagged", "foo.", "foo..txt",
      "foo.\u{202e}txt",
      "invoice.pdf.app.txt", "main.c", "name with space", "no ext", "plain.app", "proj", "same", "same.md",
      "same.txt",
      "strings", "table.csv", "v1.2", "x.unknownext",
    ],
    [
      "A.framework", "Bare.localized", "Evil", "Letter", "Lib", "Music", "My", "New", "NoLang", "Old",
      "Straße", "a",
      "a. b", "a:b", "app", "archive.tar", "bitpkg", "\u{e9}", "flagged", "foo.", "foo..txt",
      "foo.\u{202e}txt",
      "invoice.pdf.app", "main", "name with space", "no ext", "plain", "proj", "same", "same.md", "same.txt",
      "strings", "table", "v1", "x",
    ],
    [
      "A.framework", "Bare.localized", "Evil", "Letter.rtfd", "Lib.photoslibrary", "Music", "My.penpot",
      "New.pages",
      "NoLang", "Old.pages", "Straße.PDF", "a.txt", "a. b", "a:b.txt", "app", "archive.tar.gz", "bitpkg",
      "\u{e9}.txt", "flagged", "foo.", "foo..txt", "foo.\u{202e}txt", "invoice.pdf.app.txt", "main.c",
      "name with space.txt", "no ext", "plain.app", "proj.xcodeproj", "same", "same.md", "same.txt",
      "strings",
      "table.csv", "v1.2", "x.unknownext",
    ],
    [
      "A.framework", "Bare.localized", "Evil", "Letter.rtfd", "Lib.photoslibrary", "Music", "My.penpot",
      "New.pages",
      "NoLang", "Old.pages", "Straße.PDF", "a.txt", "a. b", "a:b.txt", "app", "archive.tar.gz", "bitpkg",
      "\u{e9}.txt", "flagged.txt", "foo.", "foo..txt", "foo.\u{202e}txt", "invoice.pdf.app.txt", "main.c",
      "name with space.txt", "no ext", "plain.app", "proj.xcodeproj", "same", "same.md", "same.txt",
      "strings",
      "table.csv", "v1.2", "x.unknownext",
    ],
  ]

  private static let releaseNotes: [FileName] = [
    "Versionshinweise", "Release Notes", "Release Notes", "リリースノート", "Release Notes", "Release Notes",
    "Release Notes", "Release Notes", "Release Notes",
  ]

  /// Applications where extensions are hidden: applications lose theirs in every mode but `show`.
  private static let applications: [[FileName]] = [
    ["Dienstprogramme", "Rechner", "Notizen", "Renamed by me", "Editor"],
    ["Utilities", "Calculator", "Notes", "Renamed by me", "Editor"],
    ["Utilitaires", "Calculatrice", "Notes", "Renamed by me", "Editor"],
    ["ユーティリティ", "Calculator", "Notes", "Renamed by me", "Editor"],
    ["Verktøy", "Calculator", "Notater", "Renamed by me", "Editor"],
    ["实用工具", "Calculator", "备忘录", "Renamed by me", "Editor"],
    ["Utilidades", "Calculator", "Notes", "Renamed by me", "Editor"],
    ["Utilitários", "Calculator", "Notes", "Renamed by me", "Editor"],
    ["Verktyg", "Calculator", "Notes", "Renamed by me", "Editor"],
  ]

  @Test(arguments: 0..<9) func macVolume_isListedAsInFinder(language: Int) throws {
    let view = try MountedView("language=\(Self.languages[language])", build: TestTree.build)
    for (directory, names) in Self.localized {
      expectSame(view, directory, Set(names[language]), "language=\(Self.languages[language])")
    }
    expectSame(
      view, "Applications", Set(Self.applications[language] + ["photo.jpg.app", "Microsoft.NETCore.App"]),
      "language=\(Self.languages[language])")
    expectSame(
      view, TestTree.documents, Set(Self.documents[0] + [Self.releaseNotes[language]]),
      "language=\(Self.languages[language])")
  }

  @Test func foldersWithSameLocalizedName_keepRealNames() throws {
    let view = try MountedView("language=sv,profile=macos") { root in
      for name in ["Public", "Shared", "Music"] { try put("", at: "\(root)/\(name)/.localized") }
    }
    #expect(view.listing() == ["Public", "Shared", "Musik"])
    #expect(Displayfs.run(["explain", view.at("Shared")]).text.contains("Its localized name is Delad, but"))
    #expect(unlink(view.real("Public/.localized")) == 0)
    #expect(view.listing() == ["Public", "Delad", "Musik"])
  }

  @Test(arguments: 0..<4) func extensionMode_decidesShownExtensions(mode: Int) throws {
    let options = "language=de,extensions=\(Self.extensionModes[mode])"
    let view = try MountedView(options, build: TestTree.build)
    expectSame(view, TestTree.documents, Set(Self.documents[mode] + ["Versionshinweise"]), options)
    let listed = view.listing("Applications")
    if Self.extensionModes[mode] == "show" {
      #expect(listed.isSuperset(of: ["Editor.app", "Renamed by me.app", "photo.jpg.app"]))
    } else {
      #expect(listed.isSuperset(of: ["Editor", "Renamed by me", "photo.jpg.app"]))
    }
  }

  /// Expects the mount to list `expected`, each name once, and the command that needs no mount to list the same.
  private func expectSame(
    _ view: MountedView, _ directory: String, _ expected: Set<FileName>, _ options: String,
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let listed = namesAsListed(view.at(directory)) ?? []
    #expect(
      Set(listed).difference(from: expected) == nil, "mount: \(directory)", sourceLocation: sourceLocation)
    #expect(listed.count == Set(listed).count, "twice: \(directory)", sourceLocation: sourceLocation)
    let asked = Displayfs.run(["ls", "-o", options, "--source", view.source, view.real(directory)])
    #expect(asked.status == 0, "\(asked.errorText)", sourceLocation: sourceLocation)
    #expect(asked.names.difference(from: expected) == nil, "ls: \(directory)", sourceLocation: sourceLocation)
  }

  @Test func listedAndRealNames_resolve() throws {
    let view = try MountedView("language=ja", build: TestTree.build)
    for directory in ["", "Users/anna", TestTree.documents, "Applications"] {
      for name in view.listing(directory) {
        #expect(isThere(view.at("\(directory)/\(name)")), "\(directory)/\(name)")
      }
      for name in view.realListing(directory) {
        #expect(isThere(view.at("\(directory)/\(name)")), "\(directory)/\(name)")
      }
    }
    #expect(text(view.at("ユーザ/anna/書類/リリースノート/1.0")) == "1")
    #expect(text(view.at("Users/anna/書類/Release Notes.localized/1.0.txt")) == "1")
  }

  @Test func hiddenEntries_areReachedByRealName() throws {
    let view = try MountedView(build: TestTree.build)
    for path in [
      "bin", "private/etc", ".hidden", "etc", "Desktop DB", "Users/anna/Library/Caches", "Users/anna/.ssh",
    ] {
      #expect(isThere(view.at(path)), "\(path)")
    }
    #expect(text(view.at("Users/anna/Downloads/secret.txt")) == "x")
    #expect(text(view.at("\(TestTree.documents)/byad.txt")) == "x")
    // A hidden entry has no display name, so nothing else leads to it.
    #expect(!isThere(view.at("Users/anna/Downloads/secret")))
  }

  @Test func hiddenShow_listsHiddenEntries() throws {
    let view = try MountedView("hidden=show,language=en", build: TestTree.build)
    #expect(view.listing().isSuperset(of: ["bin", "etc", ".hidden", ".DS_Store", "Desktop DB", "Volumes"]))
    #expect(view.listing("Users/anna").isSuperset(of: ["Library", ".ssh"]))
    #expect(view.listing("Users/anna/Downloads").contains(".hidden"))
  }

  @Test func hiddenDeny_refusesCallsByPath() throws {
    let view = try MountedView("hidden=deny") { root in
      try put(".key\n", at: "\(root)/.hidden")
      try put("secret", at: "\(root)/.key")
      try put("secret", at: "\(root)/.ssh/id")
      try put("mine", at: "\(root)/mine")
    }
    let (key, mine) = (view.at(".key"), view.at("mine"))
    var found = stat()
    #expect(failure { lstat(key, &found) } == .noSuchFileOrDirectory)
    #expect(failure { open(key, O_RDONLY) } == .noSuchFileOrDirectory)
    #expect(failure { access(key, F_OK) } == .noSuchFileOrDirectory)
    #expect(failure { unlink(key) } == .noSuchFileOrDirectory)
    #expect(failure { truncate(key, 0) } == .noSuchFileOrDirectory)
    #expect(failure { link(key, view.at("stolen")) } == .noSuchFileOrDirectory)
    #expect(failure { rename(key, view.at("stolen")) } == .noSuchFileOrDirectory)
    #expect(failure { open(view.at(".ssh/id"), O_RDONLY) } == .noSuchFileOrDirectory)
    // None of these may replace, change or follow what is there.
    #expect(failure { rename(mine, key) } != nil)
    #expect(failure { link(mine, key) } != nil)
    #expect(failure { symlink("x", key) } != nil)
    #expect(failure { mkdir(view.at(".ssh"), 0o755) } != nil)
    #expect(failure { open(key, O_WRONLY | O_CREAT | O_TRUNC, 0o644) } != nil)
    #expect(text(view.real(".key")) == "secret")
    #expect(text(view.real("mine")) == "mine")
    #expect(view.listing() == ["mine"])
  }

  /// Every call that takes a name, and every way to get at a file.
  @Test(.asRoot) func hiddenDeny_refusesEveryCallAndDetour() throws {
    let view = try MountedView("hidden=deny,allow_other,profile=macos") { root in
      try put(".hidden\nlisted.txt\n", at: "\(root)/.hidden")
      try put("secret", at: "\(root)/listed.txt")
      try put("secret", at: "\(root)/.key")
      try put("secret", at: "\(root)/.folder/inner")
      try put("secret", at: "\(root)/.Package.rtfd/TXT.rtf")
      try put("x", at: "\(root)/Letter.rtfd/TXT.rtf")
      symlink("mine", "\(root)/.link")
      try put("mine", at: "\(root)/mine")
    }
    // All but the times of the directory itself, and of the one file that is not denied.
    func denied() -> Set<FileName> {
      PackageTree.description(view.source).filter {
        !$0.description.hasPrefix(".|") && !$0.description.hasPrefix("./mine")
      }
    }
    let before = denied()
    let outcome = PythonProgram(
      """
      import ctypes, shutil, socket, subprocess
      libc = ctypes.CDLL(None, use_errno=True)
      def renameat2(old, new, flags):
        if libc.renameat2(-100, old.encode(), -100, new.encode(), flags): raise OSError(ctypes.get_errno(), "renameat2")
      def handle(name):
        buffer = ctypes.create_string_buffer(b"\\x80\\0\\0\\0", 200)
        if libc.name_to_handle_at(-100, name.encode(), buffer, ctypes.byref(ctypes.c_int()), 0): raise OSError(ctypes.get_errno(), "handle")
      def inotify(name):
        if libc.inotify_add_watch(libc.inotify_init(), name.encode(), 0xfff) < 0: raise OSError(ctypes.get_errno(), "inotify")
      def unnamed(name):
        file = os.open(".", os.O_TMPFILE | os.O_RDWR)
        # Only with a directory does Python follow the link as it is told.
        os.link(f"/proc/self/fd/{file}", name, src_dir_fd=file, follow_symlinks=True)
      letter = open("Letter", "rb").read()
      def write(name):
        with open(name, "wb") as file: file.write(letter)
      calls = [
        os.stat, os.lstat, os.listdir, os.readlink, os.unlink, os.rmdir, os.mkdir, os.chdir, os.statvfs, os.listxattr, os.utime, inotify, handle,
        unnamed, write, os.mkfifo, lambda name: os.open(name, os.O_PATH), lambda name: os.open(name, os.O_RDWR), lambda name: os.chmod(name, 0o777),
        lambda name: os.chown(name, 1, 1, follow_symlinks=False), lambda name: os.truncate(name, 0), lambda name: os.getxattr(name, "user.displayfs.kind"),
        lambda name: os.setxattr(name, "user.tag", b"x"), lambda name: os.removexattr(name, "user.tag"), lambda name: os.symlink("x", name),
        lambda name: os.link("mine", name), lambda name: os.link(name, "got"), lambda name: os.rename("mine", name), lambda name: os.rename(name, "got"),
        lambda name: os.rename("Letter", name), lambda name: renameat2("mine", name, 1), lambda name: renameat2("mine", name, 2), lambda name: renameat2(name, "mine", 2),
        lambda name: os.mknod(name, 0o100644), lambda name: socket.socket(socket.AF_UNIX).bind(name), lambda name: subprocess.run([os.path.abspath(name)]),
      ]
      for name in [".key", ".folder", ".folder/inner", ".Package", ".Package.rtfd", ".Package.rtfd/TXT.rtf", ".link", ".hidden", "listed.txt", "./mine/../.key"]:
        for number, call in enumerate(calls):
          try: call(name)
          except OSError: continue
          print("let through:", name, number)
      """, in: view.mountPoint
    ).run()
    #expect(outcome.text == "" && outcome.status == 0, "\(outcome.complaint)")
    #expect(denied() == before)
  }

  @Test func clashingNames_fallBackTogether() throws {
    let view = try MountedView("extensions=all,language=en") { root in
      for name in ["cat.jpg", "cat.png", "dog", "dog.txt", "fox.txt", "owl.a.txt", "owl.a"] {
        try put(name, at: "\(root)/\(name)")
      }
    }
    #expect(view.listing() == ["cat.jpg", "cat.png", "dog", "dog.txt", "fox", "owl", "owl.a.txt"])
    // `owl.a` is the real name of one and would be the display name of the other.
    for name in ["cat.jpg", "cat.png", "dog", "dog.txt", "owl.a", "owl.a.txt"] {
      #expect(text(view.at(name)) == name)
    }
    #expect(unlink(view.at("cat.jpg")) == 0)
    #expect(view.listing().contains("cat"))
    #expect(text(view.at("cat")) == "cat.png")
  }

  @Test func takenLocalizedName_isNotUsed() throws {
    let view = try MountedView("language=de,profile=macos") { root in
      try put("", at: "\(root)/Music/.localized")
      try put("x", at: "\(root)/Musik")
      try put("", at: "\(root)/Pictures/.localized")
    }
    #expect(view.listing() == ["Music", "Musik", "Bilder"])
    #expect(status(view.at("Musik"))?.isRegular == true)
  }

  @Test(arguments: [
    "\"Evil\" = \"../../etc/passwd\";", "\"Evil\" = \"..\";", "\"Evil\" = \".\";", "\"Evil\" = \"\";",
    "\"Evil\" = \"   \";",
    "\"Evil\" = \".hidden\";", "\"Evil\" = \"a\\nb\";", "\"Evil\" = \"a\u{202e}b\";",
    "\"Evil\" = \"a\u{7}b\";",
    "\"Evil\" = \"a\\0b\";", "\"Evil\" = \"\(String(repeating: "ö", count: 200))\";", "\"Evil\" = ", "{{{{",
    "bplist00", "",
    "\"Evil\" = (\"a\");", "<?xml version=\"1.0\"?><plist><dict><key>Evil</key>", "\u{0}\u{0}\u{0}",
  ])
  func hostileLocalizedNames_areNotUsed(table: String) throws {
    let view = try MountedView("language=de") { root in
      try put(table, at: "\(root)/Evil.localized/.localized/de.strings")
      try put("x", at: "\(root)/other.txt")
    }
    #expect(view.listing() == ["Evil", "other"])
    #expect(view.shell("cd Evil && pwd -P && ls").status == 0)
  }

  @Test func damagedMetadata_hidesNoEntry() throws {
    let view = try MountedView("language=de,profile=macos") { root in
      try put("bplist00\u{0}\u{0}", at: "\(root)/Broken.app/Contents/Info.plist")
      try put("<plist", at: "\(root)/Cut.app/Contents/Info.plist")
      makeDirectory("\(root)/Directory.app/Contents/Info.plist")
      makeDirectory("\(root)/Pipe.app/Contents")
      mkfifo("\(root)/Pipe.app/Contents/Info.plist", 0o644)
      makeDirectory("\(root)/Loop.app/Contents")
      symlink("Info.plist", "\(root)/Loop.app/Contents/Info.plist")
      try TestTree.application("\(root)/Table.app", named: "Table")
      try put("not a table", at: "\(root)/Table.app/Contents/Resources/InfoPlist.loctable")
      try put([0xff, 0xfe, 0x00], at: "\(root)/Table.app/Contents/Resources/de.lproj/InfoPlist.strings")
      try put("x", at: "\(root)/flag.txt")
      _ = setAttribute("user.com.apple.FinderInfo", to: [0x40], of: "\(root)/flag.txt")
      try put([0, 5, 0x16, 7, 0, 2], at: "\(root)/._flag.txt")
    }
    let listed = view.listing()
    #expect(listed.count == 7, "\(listed.sorted())")
    #expect(listed.isSuperset(of: ["Table", "flag"]))
    for bundle in ["Broken", "Cut", "Directory", "Pipe", "Loop"] {
      #expect(listed.contains(FileName(bundle)) || listed.contains(FileName(bundle + ".app")), "\(bundle)")
    }
  }

  @Test func nonUTF8Names_areListedUnchanged() throws {
    let view = try MountedView { root in
      _ = Shell.run(
        "printf x > \"$(printf 'caf\\351')\"; printf y > \"$(printf '\\377\\376.txt')\"", in: root)
    }
    #expect(
      view.listing() == [FileName([0x63, 0x61, 0x66, 0xe9]), FileName([0xff, 0xfe] + Array(".txt".utf8))])
    #expect(view.shell("cat \"$(printf 'caf\\351')\" \"$(printf '\\377\\376.txt')\"").text == "xy")
    #expect(view.shell("mv \"$(printf 'caf\\351')\" \"$(printf '\\351\\351')\"").status == 0)
    #expect(view.realListing().contains(FileName([0xe9, 0xe9] as [UInt8])))
  }

  @Test func canonicallyEquivalentNames_areTwoFiles() throws {
    let view = try MountedView("language=en") { root in
      try put("composed", at: "\(root)/\u{e9}")
      try put("decomposed", at: "\(root)/e\u{301}")
    }
    #expect(view.listing() == ["\u{e9}", "e\u{301}"])
    #expect(text(view.at("\u{e9}")) == "composed")
    #expect(text(view.at("e\u{301}")) == "decomposed")
  }

  @Test func namesOf255Bytes_work() throws {
    let stem = String(repeating: "n", count: 251)
    let view = try MountedView { root in try put("x", at: "\(root)/\(stem).txt") }
    #expect(view.listing() == [FileName(stem)])
    #expect(text(view.at(stem + ".txt")) == "x")
    let longest = String(repeating: "é", count: 127) + "e"
    #expect(failure { mkdir(view.at(longest), 0o755) } == nil)
    #expect(view.listing().contains(FileName(longest)))
    #expect(failure { mkdir(view.at(longest + "e"), 0o755) } == .fileNameTooLong)
    // The hidden extension would stay, and the real name be too long.
    #expect(failure { rename(view.at(stem), view.at(stem + "nn")) } == .fileNameTooLong)
    #expect(text(view.at(stem)) == "x")
  }

  @Test func symlinks_areListedAndLoopsFail() throws {
    let view = try MountedView { root in
      symlink("loop", "\(root)/loop")
      symlink("nowhere.txt", "\(root)/dangling.txt")
      try put("x", at: "\(root)/notes.txt")
      symlink("notes.txt", "\(root)/real")
      symlink("notes", "\(root)/displayed")
    }
    #expect(failure { open(view.at("loop"), O_RDONLY) } == .tooManySymbolicLinkLevels)
    #expect(text(view.at("real")) == "x")
    #expect(text(view.at("displayed")) == "x")
    #expect(view.listing().isSuperset(of: ["loop", "real", "displayed", "notes"]))
    #expect(view.shell("readlink loop real displayed").text == "loop\nnotes.txt\nnotes")
  }

  @Test func packagesDirectory_showsPackagesAsDirectories() throws {
    let view = try MountedView("packages=directory,language=de", build: TestTree.build)
    #expect(status(view.at("Applications/Rechner"))?.isDirectory == true)
    #expect(isThere(view.at("Applications/Rechner/Contents/Info.plist")))
    #expect(status(view.at("\(TestTree.documents)/Letter"))?.isDirectory == true)
  }

  @Test func package_isFileByDisplayNameAndDirectoryByRealName() throws {
    let view = try MountedView(build: TestTree.build)
    let file = try #require(status(view.at("Applications/Calculator")))
    let directory = try #require(status(view.at("Applications/Calculator.app")))
    #expect(file.isRegular && directory.isDirectory)
    #expect(file.st_nlink == 1)
    #expect(file.st_mode & 0o111 == 0)
    #expect(file.st_size > 0)
    #expect(file.st_ino != directory.st_ino)
    #expect(text(view.at("Applications/Calculator.app/Contents/PkgInfo")) == "APPL????")
    #expect(
      view.listing("Applications/Calculator.app/Contents") == ["Info.plist", "MacOS", "PkgInfo", "Resources"])
  }

  @Test func profileNone_mirrorsBackingTree() throws {
    let view = try MountedView("profile=none,language=de", build: TestTree.build)
    let compared = Shell.run("diff -r --no-dereference '\(view.source)' '\(view.mountPoint)'")
    #expect(compared.status == 0, "\(compared.text) \(compared.errorText)")
    let numbers = "find . -printf '%p %y %m %n %i %s %l %U %G %T@\\n' | sort"
    #expect(Shell.run(numbers, in: view.source).text == Shell.run(numbers, in: view.mountPoint).text)
    #expect(view.realListing(TestTree.documents) == view.listing(TestTree.documents))
  }

  @Test func systemFilesOfUnixTree_areReachedByPath() throws {
    let view = try MountedView { root in
      for folder in ["bin", "dev", "proc", "sbin", "usr/bin", "var", "tmp", "home/anna"] {
        makeDirectory("\(root)/\(folder)")
      }
      try put("machine\n", at: "\(root)/etc/hostname")
      try put("ID=debian\n", at: "\(root)/etc/os-release")
    }
    #expect(text(view.at("etc/hostname")) == "machine\n")
    #expect(view.listing() == ["home"])
    let forced = try MountedView("profile=unix") { root in
      try put("machine\n", at: "\(root)/etc/hostname")
      makeDirectory("\(root)/home/anna")
    }
    #expect(text(forced.at("etc/hostname")) == "machine\n")
    #expect(forced.listing() == ["home"])
  }

  @Test func mountPointInsideSource_doesNotRecurse() throws {
    let outer = try MountedView { root in
      try put("x", at: "\(root)/notes.txt")
      makeDirectory("\(root)/inside")
    }
    outer.unmount()
    let inside = outer.real("inside")
    let mounted = Displayfs.run(["mount", "-o", "language=en", outer.source, inside])
    #expect(mounted.status == 0, "\(mounted.errorText)")
    #expect(names(inside) == ["notes", "inside"])
    #expect(names(inside + "/inside") == [])
    #expect(Shell.run("timeout 10 find . | wc -l", in: inside).text == "3")
    #expect(Displayfs.run(["unmount", inside]).status == 0)
    #expect(!Displayfs.isMounted(inside))
  }

  @Test func source_canBeMountedOverItself() throws {
    let view = try MountedView()
    view.unmount()
    try put("x", at: view.real("notes.txt"))
    let mounted = Displayfs.run(["mount", "-o", "language=en", view.source, view.source])
    #expect(mounted.status == 0, "\(mounted.errorText)")
    #expect(names(view.source) == ["notes"])
    try put("y", at: view.real("new"))
    #expect(text(view.real("new")) == "y")
    #expect(Displayfs.run(["unmount", view.source]).status == 0)
    #expect(names(view.source) == ["notes.txt", "new"])
  }

  @Test func viewOfView_works() throws {
    let lower = try MountedView("extensions=flag,language=en") { root in
      try put("x", at: "\(root)/notes.txt")
      try put("x", at: "\(root)/.dot")
    }
    let upper = lower.real("../upper")
    mkdir(upper, 0o755)
    let mounted = Displayfs.run(["mount", "-o", "language=en", lower.mountPoint, upper])
    #expect(mounted.status == 0, "\(mounted.errorText)")
    #expect(lower.listing() == ["notes.txt"])
    #expect(names(upper) == ["notes"])
    #expect(failure { rename("\(upper)/notes", "\(upper)/letter") } == nil)
    #expect(text(lower.real("letter.txt")) == "x")
    let resolved = try #require(realpath(upper, nil))
    defer { free(resolved) }
    #expect(Displayfs.run(["unmount", String(cString: resolved)]).status == 0)
  }

  @Test func packageCopiedIntoViewOfView_becomesPackage() throws {
    let lower = try MountedView { root in try put("x", at: "\(root)/Letter.rtfd/TXT.rtf") }
    let upper = lower.real("../upper")
    mkdir(upper, 0o755)
    let mounted = Displayfs.run(["mount", lower.mountPoint, upper])
    #expect(mounted.status == 0, "\(mounted.errorText)")
    #expect(Shell.run("cp Letter Copy", in: upper).status == 0)
    #expect(eventually(within: .work) { lower.realListing() == ["Letter.rtfd", "Copy.rtfd"] })
    #expect(eventually { names(upper) == ["Letter", "Copy"] })
    #expect(lower.listing() == ["Letter", "Copy"])
    #expect(text(lower.at("Copy.rtfd/TXT.rtf")) == "x")
    #expect(attribute("user.displayfs.imports", of: upper) == "true")
    let resolved = try #require(realpath(upper, nil))
    defer { free(resolved) }
    #expect(Displayfs.run(["unmount", String(cString: resolved)]).status == 0)
  }
}
