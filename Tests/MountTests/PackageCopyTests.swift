import CLinux
import Glibc
import SystemPackage
import Testing

/// A package goes anywhere as a file and comes back as a package.
@Suite(.mounting) struct PackageCopyTests {
  struct Copier: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// From `$1` to `$2`.
    let script: String
    var needs = "cat"
  }

  private static let known = [
    Copier(testDescription: "cp", script: "cp \"$1\" \"$2\""),
    Copier(testDescription: "cp -a", script: "cp -a \"$1\" \"$2\""),
    Copier(
      testDescription: "cp --reflink=never --sparse=always",
      script: "cp --reflink=never --sparse=always \"$1\" \"$2\""),
    Copier(testDescription: "cat", script: "cat \"$1\" >\"$2\""),
    Copier(testDescription: "dd", script: "dd if=\"$1\" of=\"$2\" bs=3001 status=none"),
    Copier(
      testDescription: "dd, out of order",
      script: """
        dd if="$1" of="$2" bs=20k skip=4 seek=4 conv=notrunc status=none
        for part in 3 2 1 0; do dd if="$1" of="$2" bs=20k skip=$part seek=$part count=1 conv=notrunc status=none; done
        """),
    Copier(testDescription: "rsync", script: "rsync \"$1\" \"$2\"", needs: "rsync"),
    Copier(testDescription: "rsync -a", script: "rsync -a \"$1\" \"$2\"", needs: "rsync"),
    Copier(testDescription: "rsync --inplace", script: "rsync --inplace \"$1\" \"$2\"", needs: "rsync"),
    Copier(testDescription: "gio copy", script: "gio copy \"$1\" \"$2\"", needs: "gio"),
    Copier(
      testDescription: "python shutil",
      script: "python3 -c 'import shutil, sys; shutil.copy2(sys.argv[1], sys.argv[2])' \"$1\" \"$2\"",
      needs: "python3"),
    Copier(testDescription: "install", script: "install -m 644 \"$1\" \"$2\""),
  ]
  /// Those that are installed here; with `DISPLAYFS_REQUIRE_PROGRAMS` those that are missing fail.
  static let copiers = known.filter {
    getenv("DISPLAYFS_REQUIRE_PROGRAMS") != nil || Shell.run(["which", $0.needs]).status == 0
  }

  private static func run(_ copier: Copier, _ from: String, _ to: String) -> Outcome {
    Shell.run(["/bin/sh", "-c", "set -e\n" + copier.script, "sh", from, to], with: ["GIO_USE_VFS": "local"])
  }

  private func view(_ options: String = "") throws -> MountedView {
    try MountedView(options) { root in
      try PackageTree.album(in: root)
      makeDirectory("\(root)/Folder")
    }
  }

  @Test(arguments: copiers) func copyOfPackageInView_becomesPackage(_ copier: Copier) throws {
    let view = try view()
    for (name, real) in [
      ("Album copy", "Album copy.photoslibrary"), ("Folder/Album", "Folder/Album.photoslibrary"),
    ] {
      let outcome = Self.run(copier, view.at("Album"), view.at(name))
      #expect(outcome.status == 0, "\(outcome.errorText)")
      #expect(status(view.at(name))?.isRegular == true)
      PackageTree.expectSame(view.real("Album.photoslibrary"), view.real(real), copier.testDescription)
      #expect(!isThere(view.real(name)))
    }
    #expect(view.realListing() == ["Album.photoslibrary", "Album copy.photoslibrary", "Folder"])
    #expect(view.listing() == ["Album", "Album copy", "Folder"])
    #expect(view.realListing("Folder") == ["Album.photoslibrary"])
  }

  /// Programs set the mode of a copy by its name, which is that of the package's directory by then.
  @Test(arguments: copiers) func packageCopiedToRealName_canBeOpenedByItsOwner(_ copier: Copier) throws {
    let view = try view()
    let outcome = Self.run(copier, view.at("Album"), view.at("Folder/Copy.photoslibrary"))
    #expect(outcome.status == 0, "\(outcome.errorText)")
    let copy = try #require(status(view.real("Folder/Copy.photoslibrary")))
    #expect(copy.isDirectory && copy.permissions & 0o500 == 0o500, "\(String(copy.permissions, radix: 8))")
    #expect(contents(view.at("Folder/Copy"))?.isEmpty == false)
  }

  @Test(arguments: copiers) func packageCopiedOutAndBack_isRestored(_ copier: Copier) throws {
    let view = try view()
    // Not of the backing file system, where root can mount one.
    let outside = "\(view.real("")).outside"
    makeDirectory(outside)
    if geteuid() == 0 { _ = Shell.run("mount -t tmpfs none '\(outside)'") }
    defer { if geteuid() == 0 { umount2(outside, CInt(2) /* MNT_DETACH */) } }
    #expect(Self.run(copier, view.at("Album"), "\(outside)/stick").status == 0)
    #expect(status("\(outside)/stick")?.isRegular == true)
    let before = PackageTree.description(view.real("Album.photoslibrary"))
    #expect(view.shell("rm Album").status == 0)
    #expect(Self.run(copier, "\(outside)/stick", view.at("Album")).status == 0)
    let difference = PackageTree.description(view.real("Album.photoslibrary")).difference(from: before)
    #expect(difference == nil, "\(difference ?? "")")
    #expect(contents(view.at("Album")) == contents("\(outside)/stick"))
    #expect(view.leftovers.isEmpty)
  }

  @Test func copyOverPackage_replacesItUnlessWrittenInPlace() throws {
    let view = try view()
    #expect(
      view.shell("cp Album Folder/Album && echo changed >Album.photoslibrary/masters/0/0.jpg").status == 0)
    #expect(view.shell("cp Folder/Album Album").status != 0, "a package is not written over")
    for command in ["cp --remove-destination Folder/Album Album", "rsync --checksum Folder/Album Album"] {
      try put("changed", at: view.real("Album.photoslibrary/masters/0/0.jpg"))
      let outcome = view.shell(command)
      #expect(outcome.status == 0, "\(command): \(outcome.errorText)")
      PackageTree.expectSame(
        view.real("Folder/Album.photoslibrary"), view.real("Album.photoslibrary"), command)
    }
  }

  @Test func copyOfSparsePackage_keepsHoles() throws {
    let view = try MountedView { root in
      makeDirectory("\(root)/Disk.sparsebundle")
      let image = try OpenFile("\(root)/Disk.sparsebundle/image", O_WRONLY | O_CREAT)
      try #require(ftruncate(image.descriptor, 20 << 30) == 0)
      for place in [0, 9 << 30, (20 << 30) - 7] { image.write("written", at: place) }
    }
    #expect(try #require(status(view.at("Disk"))).st_size < 1 << 20)
    #expect(view.shell("cp Disk Copy").status == 0)
    let copy = try OpenFile(view.real("Copy.sparsebundle/image"))
    #expect(copy.status.st_size == 20 << 30 && copy.status.st_blocks < 1000)
    for place in [0, 9 << 30, (20 << 30) - 7] { #expect(copy.text(7, at: place) == "written") }
  }

  @Test func deepPackage_isRestored() throws {
    let view = try MountedView { root in
      let script = """
        mkdir '\(root)/Deep.photoslibrary' && cd '\(root)/Deep.photoslibrary' || exit
        for level in $(seq 200); do mkdir "level $level" && cd "level $level" || exit; done; echo bottom >x
        """
      try #require(Shell.run(script).status == 0)
    }
    #expect(view.shell("cat Deep >Copy").status == 0)
    PackageTree.expectSame(view.real("Deep.photoslibrary"), view.real("Copy.photoslibrary"))
  }

  @Test func copyOfPackage_isShownUnderTypedName() throws {
    let view = try view()
    for (typed, real) in [
      ("Plain", "Plain.photoslibrary"), ("Real.photoslibrary", "Real.photoslibrary"),
      ("v1.2", "v1.2.photoslibrary"),
      ("archive.tar", "archive.tar"), (".hidden", ".hidden"),
    ] {
      #expect(view.shell("cat Album >'\(typed)'").status == 0)
      #expect(isThere(view.real(real)), "\(typed)")
    }
    #expect(view.listing() == ["Album", "Folder", "Plain", "Real", "v1.2", "archive"])
    #expect(
      status(view.real("archive.tar"))?.isRegular == true && status(view.real(".hidden"))?.isRegular == true)
  }

  @Test func importOff_keepsStreamAsFile() throws {
    let view = try view("import=off")
    #expect(view.shell("cp Album Copy && cmp Album Copy").status == 0)
    #expect(view.realListing() == ["Album.photoslibrary", "Copy", "Folder"])
    #expect(status(view.real("Copy"))?.isRegular == true)
  }

  // MARK: - Other programs

  @Test(arguments: [
    "tar --xattrs --xattrs-include='user.*' -xpf \"$1\"", "bsdtar -xpf \"$1\"",
    "python3 -c 'import sys,tarfile; tarfile.open(sys.argv[1]).extractall(\".\", numeric_owner=True)' \"$1\"",
  ]) func archivers_restorePackageFromView(_ command: String) throws {
    try #require(Shell.run("command -v \(command.prefix { $0 != " " })").status == 0)
    let view = try view()
    let restored = "\(view.source).restored"
    makeDirectory(restored)
    let outcome = Shell.run(["/bin/sh", "-c", "cd '\(restored)' && \(command)", "sh", view.at("Album")])
    #expect(outcome.status == 0, "\(outcome.errorText)")
    guard command.hasPrefix("python") else {
      return PackageTree.expectSame(view.real("Album.photoslibrary"), restored, command)
    }
    // Python's knows no attributes, and keeps times as floating point.
    let compared = Shell.run(
      "rsync -ainH --modify-window=1 --delete --checksum --omit-link-times '\(view.real("Album.photoslibrary"))/' '\(restored)/'"
    )
    #expect(compared.status == 0 && compared.text == "", "\(compared.text) \(compared.errorText)")
  }
}
