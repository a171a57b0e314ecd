import CLinux
import Glibc
import SystemPackage
import Testing

/// What a package is to programs: a file.
@Suite(.mounting) struct PackageTests {
  private func view(_ options: String = "") throws -> MountedView {
    try MountedView(options) { root in
      try PackageTree.album(in: root)
      makeDirectory("\(root)/Folder")
    }
  }

  @Test func package_isRegularFile() throws {
    let view = try view()
    let shown = try #require(status(view.at("Album")))
    let inside = try #require(status(view.at("Album.photoslibrary")))
    #expect(shown.isRegular && inside.isDirectory)
    #expect(shown.permissions == 0o644)
    #expect(shown.st_nlink == 1)
    #expect(shown.st_ino != inside.st_ino)
    #expect(shown.st_mtim.tv_sec == 1_083_827_289 && shown.st_mtim.tv_nsec == 987_654_321)
    #expect(contents(view.at("Album"))?.count == Int(shown.st_size))
    #expect(view.listing() == ["Album", "Folder"])
    #expect(
      failure { CInt(truncatingIfNeeded: namesAsListed(view.at("Album")) == nil ? -1 : 0) } == .notDirectory)
  }

  @Test func modeOfPackage_omitsExecuteBits() throws {
    let view = try view()
    for (real, shown) in [(0o755, 0o644), (0o700, 0o600), (0o711, 0o600), (0o777, 0o666), (0o500, 0o400)]
      as [(mode_t, mode_t)]
    {
      chmod(view.real("Album.photoslibrary"), real)
      #expect(eventually { status(view.at("Album"))?.permissions == shown }, "\(String(real, radix: 8))")
    }
  }

  @Test func unchangedPackage_openedTwice_givesSameBytes() throws {
    let view = try view()
    let first = try #require(contents(view.at("Album")))
    #expect(first[515...].starts(with: "comment=displayfs:com.apple.photos.library\n".utf8))
    #expect(contents(view.at("Album")) == first)
    let file = try OpenFile(view.at("Album"))
    for offset in [
      0, 1, 511, 513, 1024, 4000, 60_000, first.count - 700, first.count - 1, first.count, first.count + 5,
    ] {
      #expect(file.bytes(5000, at: offset) == Array(first.dropFirst(offset).prefix(5000)), "at \(offset)")
    }
  }

  /// The beginning of a package that was read before comes from memory.
  @Test func beginningOfPackage_readInPieces_isSame() throws {
    let view = try view()
    usleep(2_500_000)
    let all = try #require(contents(view.at("Album")))
    for piece in [100, 512, 1024, 4095, 4096, 4097, 65536] {
      let file = try OpenFile(view.at("Album"))
      #expect(Int(file.status.st_size) == all.count)
      var read: [UInt8] = []
      while let bytes = file.bytes(piece, at: read.count), !bytes.isEmpty, read.count < 20_000 {
        read += bytes
      }
      #expect(read.count >= 20_000 && read.elementsEqual(all.prefix(read.count)), "\(piece)")
    }
  }

  @Test func package_changedAfterItsBeginningWasRead_failsWithEIO() throws {
    let view = try view()
    usleep(2_500_000)
    _ = contents(view.at("Album"))
    let file = try OpenFile(view.at("Album"))
    #expect(file.bytes(4096, at: 0)?.count == 4096)
    let appended = Shell.run(
      "find . -type f -exec sh -c 'for f; do echo more >>\"$f\"; done' sh {} +",
      in: view.real("Album.photoslibrary"))
    try #require(appended.status == 0)
    var position = 4096
    while let bytes = file.bytes(4096, at: position), !bytes.isEmpty { position += bytes.count }
    #expect(errno == EIO)
    #expect(contents(view.at("Album")) != nil)
  }

  @Test func package_changedWhileRead_failsWithEIO() throws {
    let view = try view()
    let file = try OpenFile(view.at("Album"))
    #expect(file.bytes(1024, at: 0)?.count == 1024)
    try put([UInt8](repeating: 1, count: 70_001), at: view.real("Album.photoslibrary/database/Photos.sqlite"))
    var offset = 0
    while let bytes = file.bytes(4096, at: offset), !bytes.isEmpty { offset += bytes.count }
    #expect(file.bytes(4096, at: offset) == nil)
    #expect(errno == EIO)
  }

  /// A program that saves safely puts a new package in its place, and removes what was in the old one.
  @Test func package_replacedAndEmptiedBeforeItIsRead_failsWithEIO() throws {
    let view = try MountedView { root in
      for name in ["Letter.rtfd", "new"] {
        for part in 0..<5 {
          try put(String(repeating: "x", count: 5000), at: "\(root)/\(name)/\(part)")
        }
      }
    }
    // What was just changed would be measured again.
    sleep(3)
    #expect(status(view.at("Letter"))?.st_size ?? 0 > 25_000)
    let package = try OpenFile(view.at("Letter"))
    #expect(
      dfs_renameat(
        AT_FDCWD, view.real("Letter.rtfd"), AT_FDCWD, view.real("new"), dfs_RENAME_EXCHANGE) == 0)
    for part in 0..<5 { unlink(view.real("new/\(part)")) }
    #expect(package.bytes(65_536, at: 0) == nil)
    #expect(errno == EIO)
    #expect(contents(view.at("Letter"))?.count ?? 0 > 25_000)
  }

  @Test func package_cannotBeWrittenOrLinked() throws {
    let view = try view()
    let path = view.at("Album")
    for flags in [O_WRONLY, O_RDWR, O_WRONLY | O_TRUNC, O_WRONLY | O_APPEND] {
      #expect(throws: Errno.permissionDenied) { try OpenFile(path, flags) }
    }
    #expect(failure { truncate(path, 0) } == .permissionDenied)
    #expect(failure { link(path, view.at("Second")) } == .notPermitted)
    #expect(failure { link(path, view.at("Folder/Album")) } == .notPermitted)
    #expect(failure { rmdir(path) } == .notDirectory)
    #expect(view.realListing() == ["Album.photoslibrary", "Folder"])
  }

  @Test func attributesOfPackage_areThoseOfDirectory() throws {
    let view = try view()
    let path = view.at("Album")
    let real = view.real("Album.photoslibrary")
    let modes: [(mode_t, mode_t)] = [
      (0o600, 0o700), (0o640, 0o750), (0o755, 0o755), (0o400, 0o500), (0o664, 0o775),
    ]
    for (asked, kept) in modes {
      #expect(failure { chmod(path, asked) } == nil)
      #expect(status(real)?.permissions == kept)
      #expect(status(path)?.permissions == asked & 0o666)
      #expect(contents(path) != nil)
    }
    #expect(attribute("user.tag", of: path) == "top")
    #expect(setAttribute("user.more", to: Array("y".utf8), of: path) == nil)
    #expect(attribute("user.more", of: real) == "y")
    #expect(removexattr(path, "user.more") == 0 && attribute("user.more", of: real) == nil)
    #expect(view.shell("touch -d '2020-01-01 00:00:00 UTC' Album").status == 0)
    #expect(status(real)?.st_mtim.tv_sec == 1_577_836_800)
    #expect(status(path)?.st_mtim.tv_sec == 1_577_836_800)
    if geteuid() == 0 {
      #expect(failure { chown(path, 1234, 5678) } == nil)
      #expect(status(real)?.st_uid == 1234 && status(real)?.st_gid == 5678)
      #expect(status(view.real("Album.photoslibrary/masters"))?.st_uid == 0)
    }
  }

  /// What a program that copies sets afterwards is what it was shown of the original.
  @Test func settingShownAttributes_changesNothing() throws {
    let view = try view()
    chmod(view.real("Album.photoslibrary"), 0o711)
    try waitUntil { status(view.at("Album"))?.permissions == 0o600 }
    let before = PackageTree.description(view.real("Album.photoslibrary"))
    #expect(view.shell("touch -r Album Album && chmod \"$(stat -c %a Album)\" Album").status == 0)
    // As exact as an archive, a FAT stick and a floating-point number are.
    #expect(view.shell("touch -d \"@$(stat -c %Y Album)\" Album").status == 0)
    #expect(view.shell("touch -d \"@$(($(stat -c %Y Album) / 2 * 2))\" Album").status == 0)
    let script = "import os; time = os.stat('Album').st_mtime; os.utime('Album', (time, time))"
    #expect(view.shell("python3 -c \"\(script)\"").status == 0)
    #expect(PackageTree.description(view.real("Album.photoslibrary")) == before)
  }

  @Test func renameOfPackage_movesItsDirectory() throws {
    let view = try view()
    let before = PackageTree.description(view.real("Album.photoslibrary"))
    let inode = status(view.real("Album.photoslibrary"))?.st_ino
    for (from, to, real) in [
      ("Album", "Holidays", "Holidays.photoslibrary"),
      ("Holidays", "Folder/Holidays", "Folder/Holidays.photoslibrary"),
      ("Folder/Holidays", "Back", "Back.photoslibrary"),
    ] {
      #expect(failure { rename(view.at(from), view.at(to)) } == nil, "\(to)")
      #expect(status(view.real(real))?.st_ino == inode)
      #expect(!isThere(view.at(from)))
      #expect(status(view.at(to))?.isRegular == true)
    }
    #expect(view.shell("mv Back Folder/ && ls Folder").text == "Back")
    #expect(PackageTree.description(view.real("Folder/Back.photoslibrary")) == before)
    #expect(view.realListing() == ["Folder"])
  }

  @Test func rm_removesWholePackage() throws {
    let view = try view()
    #expect(view.shell("rm Album").status == 0)
    #expect(!isThere(view.at("Album")))
    #expect(eventually(within: .work) { view.realListing() == ["Folder"] })
  }

  @Test func packagesDirectory_showsDirectoriesAndImportsNothing() throws {
    let view = try view("packages=directory")
    #expect(status(view.at("Album"))?.isDirectory == true)
    #expect(view.listing() == ["Album", "Folder"])
    #expect(text(view.at("Album/masters/0/0.jpg")) == "picture 0")
    let stream = try MountedView { try PackageTree.album(in: $0) }
    #expect(view.shell("cat '\(stream.at("Album"))' >Copy").status == 0)
    #expect(status(view.at("Copy"))?.isRegular == true)
    #expect(view.realListing() == ["Album.photoslibrary", "Copy", "Folder"])
  }

  @Test func application_requiresInfoPlist() throws {
    let view = try MountedView { root in
      makeDirectory("\(root)/Microsoft.NETCore.App/9.0")
      makeDirectory("\(root)/vim.plugin/x")
      try TestTree.application("\(root)/Chess.app", named: "Chess")
      try put("<plist/>", at: "\(root)/Flat.app/Info.plist")
    }
    #expect(view.listing() == ["Microsoft.NETCore.App", "vim.plugin", "Chess", "Flat"])
    #expect(status(view.at("Microsoft.NETCore.App"))?.isDirectory == true)
    #expect(status(view.at("Chess"))?.isRegular == true && status(view.at("Flat"))?.isRegular == true)
    // The moment it has one it is an application.
    try put("<plist/>", at: view.at("Microsoft.NETCore.App/Contents/Info.plist"))
    #expect(eventually { status(view.at("Microsoft.NETCore"))?.isRegular == true })
  }

  @Test(arguments: ["System/Applications", "Users/anna/Applications", "Applications/Design"])
  func applicationsOfSystemAndHomes_declarePackageTypes(folder: String) throws {
    let view = try MountedView("profile=macos") { root in
      try TestTree.declaringApplication("\(root)/\(folder)/Editor.app")
      try put("{}", at: "\(root)/Users/anna/Documents/My.penpot/file.json")
    }
    #expect(status(view.at("Users/anna/Documents/My"))?.isRegular == true)
    #expect(text(view.at("Users/anna/Documents/My.penpot/file.json")) == "{}")
  }

  /// Documents of Pages, Numbers and Keynote are zip archives or, by older versions, directories.
  @Test(arguments: ["pages", "numbers", "key"]) func iWorkDocument_isFileInBothForms(suffix: String) throws {
    let archive = Array("PK\u{3}\u{4}".utf8) + [UInt8](repeating: 7, count: 200)
    let view = try MountedView { root in
      try put(archive, at: "\(root)/Flat.\(suffix)")
      try put("x", at: "\(root)/Old.\(suffix)/Index.zip")
    }
    #expect(
      status(view.at("Flat.\(suffix)"))?.isRegular == true && contents(view.at("Flat.\(suffix)")) == archive)
    #expect(status(view.at("Old"))?.isRegular == true)
    #expect(view.shell("tar -tf Old").text.contains("./Index.zip"))
    #expect(status(view.at("Old.\(suffix)"))?.isDirectory == true)
    // Each form takes the place of the other.
    #expect(rename(view.real("Old.\(suffix)"), view.real("Kept")) == 0)
    try put(archive, at: view.real("Old.\(suffix)"))
    #expect(eventually { contents(view.at("Old.\(suffix)")) == archive })
    #expect(unlink(view.real("Flat.\(suffix)")) == 0)
    #expect(rename(view.real("Kept"), view.real("Flat.\(suffix)")) == 0)
    #expect(eventually { view.shell("tar -tf Flat").text.contains("./Index.zip") })
    #expect(status(view.at("Flat.\(suffix)"))?.isDirectory == true)
  }

  @Test func applicationsOnVolume_declarePackageTypes() throws {
    let view = try MountedView("profile=macos") { try TestTree.build(at: $0) }
    let path = view.at("\(TestTree.documents)/My")
    #expect(status(path)?.isRegular == true)
    #expect(contents(path)?[515...].starts(with: "comment=displayfs:dev.example.penpot\n".utf8) == true)
    let other = try MountedView { try put("{}", at: "\($0)/My.penpot/file.json") }
    #expect(other.listing() == ["My.penpot"])
  }
}
