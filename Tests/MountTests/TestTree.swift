import Glibc

/// A Mac volume with one user, in which every rule about names has something to do.
enum TestTree {
  static let documents = "Users/anna/Documents"

  static func build(at root: String) throws {
    try folders(root)
    try tables(root)
    try documents(root)
    try applications(root)
    try containers(root)
  }

  private static func folders(_ root: String) throws {
    let home = "Users/anna"
    let inHome = [
      "Applications", "Desktop", "Documents", "Downloads", "Library", "Movies", "Music", "Pictures", "Public",
      "Public/Drop Box", "Sites",
    ]
    let marked =
      ["Applications", "Applications/Utilities", "Library", "Users", "Users/Shared"]
      + inHome.map { "\(home)/\($0)" }
    for folder in marked { try put("", at: "\(root)/\(folder)/.localized") }
    let plain = [
      "private/etc", "private/tmp", "private/var", "bin", "sbin", "usr/bin", "dev", "cores", "opt", "Volumes",
      "home",
      "net", ".fseventsd", ".Spotlight-V100", ".Trashes/501", "Network", "\(home)/Library/Caches",
      "\(home)/.ssh",
    ]
    for folder in plain { makeDirectory("\(root)/\(folder)") }
    for link in ["etc", "tmp", "var"] { symlink("private/\(link)", "\(root)/\(link)") }
    for file in [".DS_Store", "Desktop DB", "Desktop DF", "\(home)/Pictures/Icon\r"] {
      try put("x", at: "\(root)/\(file)")
    }
    try put("bin\ndev\n", at: "\(root)/.hidden")
    try put("secret.txt\n", at: "\(root)/\(home)/Downloads/.hidden")
    try put("x", at: "\(root)/\(home)/Downloads/secret.txt")
    try put(
      "[Desktop Entry]\nType=Directory\nName=Music\nName[de]=Meine Musik\n",
      at: "\(root)/\(home)/Music/.directory")
  }

  /// The volume's own names of folders. No other table has these names of `Sites`, so they show which table was used.
  private static func tables(_ root: String) throws {
    let folder = "\(root)/System/Library/CoreServices/SystemFolderLocalizations"
    func table(_ language: String, _ content: [UInt8]) throws {
      try put(content, at: "\(folder)/\(language).lproj/SystemFolderLocalizations.strings")
    }
    func strings(_ pairs: [(String, String)]) -> String { pairs.map { "\"\($0)\" = \"\($1)\";\n" }.joined() }
    let german = [
      ("Applications", "Programme"), ("Utilities", "Dienstprogramme"), ("Users", "Benutzer"),
      ("Shared", "Geteilt"),
      ("Desktop", "Schreibtisch"), ("Documents", "Dokumente"), ("Movies", "Filme"), ("Music", "Musik"),
      ("Pictures", "Bilder"), ("Public", "Öffentlich"), ("Drop Box", "Briefkasten"),
      ("Sites", "Eigene Websites"),
    ]
    let french = [
      ("Applications", "Applications"), ("Utilities", "Utilitaires"), ("Library", "Bibliothèque"),
      ("Users", "Utilisateurs"), ("Shared", "Partagé"), ("Desktop", "Bureau"),
      ("Downloads", "Téléchargements"),
      ("Movies", "Vidéos"), ("Music", "Musique"), ("Pictures", "Images"), ("Drop Box", "Boîte de dépôt"),
      ("Sites", "Mes sites"),
    ]
    let japanese = [
      ("Applications", "アプリケーション"), ("Utilities", "ユーティリティ"), ("Library", "ライブラリ"),
      ("Users", "ユーザ"), ("Shared", "共有"), ("Desktop", "デスクトップ"), ("Documents", "書類"),
      ("Downloads", "ダウンロード"), ("Movies", "ムービー"), ("Music", "ミュージック"), ("Pictures", "ピクチャ"),
      ("Public", "パブリック"), ("Sites", "私のサイト"),
    ]
    try table("de", Array(propertyList(german).utf8))
    try table("fr", Array(("/* noms */\n" + strings(french)).utf8))
    try table("ja", utf16(strings(japanese)))
    // These two leave the rest to the built-in table.
    try table("no", Array(strings([("Sites", "Mine nettsteder")]).utf8))
    try table("zh_CN", Array(strings([("Sites", "我的站点")]).utf8))
    try table("pt", Array(propertyList([("Sites", "Meus sites"), ("Users", "Usuários")]).utf8))
    try table("sv", utf16(strings([("Sites", "Mina webbplatser")])))
    try table("en", Array(propertyList([("Applications", "Applications")]).utf8))
  }

  private static func documents(_ root: String) throws {
    let base = "\(root)/\(documents)"
    try put("x", at: "\(base)/Music/x")
    let notes = "\(base)/Release Notes.localized"
    try put("1", at: "\(notes)/1.0.txt")
    try put("\"Release Notes\" = \"Release Notes\";\n", at: "\(notes)/.localized/en.strings")
    try put("\"Release Notes\" = \"Versionshinweise\";\n", at: "\(notes)/.localized/de.strings")
    try put(utf16("\"Release Notes\" = \"リリースノート\";\n"), at: "\(notes)/.localized/ja.strings")
    makeDirectory("\(base)/Bare.localized")
    makeDirectory("\(base)/NoLang.localized/.localized")
    try put("\"Evil\" = \"../../etc/passwd\";\n", at: "\(base)/Evil.localized/.localized/de.strings")
    let files = [
      "a.txt", "archive.tar.gz", "v1.2", ".bashrc", "foo.", "no ext", "a. b", "name with space.txt",
      "foo..txt", ".a.txt",
      "Straße.PDF", "x.unknownext", "e\u{301}.txt", "invoice.pdf.app.txt", "a:b.txt", "foo.\u{202e}txt",
      "table.csv",
      "main.c", "flagged.txt", "invisible.txt", "byad.txt", "bymeta.txt", "byfruit.txt", "bydos0.txt",
      "bitpkg/data", "Letter.rtfd/TXT.rtf", "Lib.photoslibrary/database/Photos.sqlite", "Old.pages/Index.zip",
      "New.pages",
      "proj.xcodeproj/project.pbxproj", "My.penpot/file.json", "A.framework/Versions/A/A",
      "strings/de.lproj/x.strings",
      "plain.app", "same.txt", "same.md", "same",
    ]
    for file in files { try put("x", at: "\(base)/\(file)") }
    makeDirectory("\(base)/app")
    makeDirectory("\(base)/.app")
    _ = setAttribute("user.com.apple.FinderInfo", to: finderInfo(0x0010), of: "\(base)/flagged.txt")
    _ = setAttribute("user.com.apple.FinderInfo", to: finderInfo(0x4000), of: "\(base)/invisible.txt")
    _ = setAttribute("user.com.apple.FinderInfo", to: finderInfo(0x2000), of: "\(base)/bitpkg")
    _ = setAttribute("user.org.netatalk.Metadata", to: netatalk(finderInfo(0x4000)), of: "\(base)/bymeta.txt")
    _ = setAttribute(
      "user.DosStream.AFP_AfpInfo:$DATA", to: afpInfo(finderInfo(0x4000)), of: "\(base)/byfruit.txt")
    for version in [UInt8(3), 4, 5] {
      try put("x", at: "\(base)/bydos\(version).txt")
      _ = setAttribute(
        "user.DOSATTRIB", to: dosAttributes(0x22, version: version), of: "\(base)/bydos\(version).txt")
    }
    _ = setAttribute("user.DOSATTRIB", to: Array("0x22\0".utf8), of: "\(base)/bydos0.txt")
    try put(appleDouble(finderInfo(0x4000)), at: "\(base)/._byad.txt")
  }

  private static func applications(_ root: String) throws {
    let folder = "\(root)/Applications"
    let calculator = "\(folder)/Calculator.app"
    try application(calculator, named: "Calculator", displayName: "Calculator")
    func localized(_ language: String, _ content: [UInt8]) throws {
      try put(content, at: "\(calculator)/Contents/Resources/\(language).lproj/InfoPlist.strings")
    }
    try localized("de", utf16("\"CFBundleDisplayName\" = \"Rechner\";\n"))
    try localized("French", Array("CFBundleDisplayName = \"Calculatrice\";\n".utf8))
    try localized("en", utf16("/* Localized versions of Info.plist keys */\n\n"))
    let chess = "\(folder)/Renamed by me.app"
    try application(chess, named: "Chess", displayName: "Chess")
    try put(
      "\"CFBundleDisplayName\" = \"Schach\";\n", at: "\(chess)/Contents/Resources/de.lproj/InfoPlist.strings")
    try application("\(folder)/Notes.app", named: "Notes")
    try put(
      document(
        dictionary([
          ("de", dictionary([("CFBundleName", text("Notizen"))])),
          ("no", dictionary([("CFBundleName", text("Notater"))])),
          ("zh_CN", dictionary([("CFBundleName", text("备忘录"))])),
          ("LocProvenance", dictionary([("de", text("x"))])),
        ])), at: "\(folder)/Notes.app/Contents/Resources/InfoPlist.loctable")
    try declaringApplication("\(folder)/Editor.app")
    try application("\(folder)/photo.jpg.app", named: "photo")
    makeDirectory("\(folder)/Microsoft.NETCore.App/9.0")
  }

  private static func containers(_ root: String) throws {
    let container = "\(root)/Users/anna/Containers/ABCD-1234"
    for file in [
      "Documents/Inbox/mail.txt", "Documents/report.txt", "Library/Caches/c.db", "tmp/t", "SystemData/x",
    ] {
      try put("x", at: "\(container)/\(file)")
    }
  }

  // MARK: Formats

  static func application(
    _ path: String, named name: String, displayName: String? = nil, more: [(String, String)] = []
  ) throws {
    let info =
      [
        ("CFBundleName", text(name)), ("CFBundleExecutable", text(name)),
        ("CFBundleIdentifier", text("com.example.\(name)")), ("CFBundlePackageType", text("APPL")),
        ("CFBundleDevelopmentRegion", text("en")),
      ] + (displayName.map { [("CFBundleDisplayName", text($0))] } ?? []) + more
    try put(document(dictionary(info)), at: "\(path)/Contents/Info.plist")
    try put("#!/bin/sh\n", at: "\(path)/Contents/MacOS/\(name)")
    try put("APPL????", at: "\(path)/Contents/PkgInfo")
  }

  /// An application that declares the package type `penpot`.
  static func declaringApplication(_ path: String) throws {
    try application(
      path, named: "Editor",
      more: [
        (
          "UTExportedTypeDeclarations",
          "<array>"
            + dictionary([
              ("UTTypeIdentifier", text("dev.example.penpot")),
              ("UTTypeConformsTo", text("com.apple.package")),
              ("UTTypeTagSpecification", dictionary([("public.filename-extension", text("penpot"))])),
            ]) + "</array>"
        )
      ])
  }

  static func propertyList(_ pairs: [(String, String)]) -> String {
    document(dictionary(pairs.map { ($0, text($1)) }))
  }

  private static func document(_ body: String) -> String {
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<plist version=\"1.0\">\(body)</plist>\n"
  }

  private static func dictionary(_ pairs: [(String, String)]) -> String {
    "<dict>" + pairs.map { "<key>\($0)</key>\($1)" }.joined() + "</dict>"
  }

  private static func text(_ value: String) -> String { "<string>\(value)</string>" }

  /// Little endian, with a byte order mark.
  static func utf16(_ text: String) -> [UInt8] {
    [0xff, 0xfe] + text.utf16.flatMap { [UInt8($0 & 0xff), UInt8($0 >> 8)] }
  }

  static func finderInfo(_ flags: UInt16) -> [UInt8] {
    [UInt8](repeating: 0, count: 8) + [UInt8(flags >> 8), UInt8(flags & 0xff)]
      + [UInt8](repeating: 0, count: 22)
  }

  /// An AppleDouble file with the Finder info at offset 50 and an empty resource fork.
  static func appleDouble(_ info: [UInt8]) -> [UInt8] {
    [0x00, 0x05, 0x16, 0x07, 0x00, 0x02, 0x00, 0x00] + Array("Mac OS X        ".utf8) + [0, 2]
      + [0, 0, 0, 9, 0, 0, 0, 50, 0, 0, 0, 32] + [0, 0, 0, 2, 0, 0, 0, 82, 0, 0, 0, 0] + info
  }

  /// 402 bytes, as netatalk 3 and Samba write them.
  static func netatalk(_ info: [UInt8]) -> [UInt8] {
    let entries: [(UInt32, UInt32, UInt32)] = [
      (9, 122, 32), (4, 154, 0), (8, 354, 16), (14, 370, 4), (0x8044_4556, 374, 0), (0x8049_4e4f, 382, 0),
      (0x8053_594e, 390, 0), (0x8053_567e, 398, 0),
    ]
    func big(_ value: UInt32) -> [UInt8] {
      stride(from: 24, through: 0, by: -8).map { UInt8(value >> UInt32($0) & 0xff) }
    }
    let header: [UInt8] =
      [0x00, 0x05, 0x16, 0x07, 0x00, 0x02, 0x00, 0x00] + Array("Netatalk        ".utf8) + [0, 8]
    let bytes = header + entries.flatMap { big($0.0) + big($0.1) + big($0.2) } + info
    return bytes + [UInt8](repeating: 0, count: 402 - bytes.count)
  }

  /// As Samba writes them, in one of its versions of the structure.
  static func dosAttributes(_ attributes: UInt8, version: UInt8) -> [UInt8] {
    let text: [UInt8] = version == 3 ? Array("0x22\0\0".utf8) : [0, 0]
    return text + [version, 0, version, 0] + [0, 0] + [0x11, 0, 0, 0, attributes, 0, 0, 0]
      + [UInt8](repeating: 0, count: version == 3 ? 36 : version == 4 ? 16 : 8)
  }

  static func afpInfo(_ info: [UInt8]) -> [UInt8] {
    Array("AFP\0".utf8) + [0, 0, 1, 0, 0, 0, 0, 0, 0x80, 0, 0, 0] + info + [UInt8](repeating: 0, count: 13)
  }
}
