import Glibc
import Testing

/// What desktops take packages for, by the file types that `Mount/install` installs.
@Suite(.mounting) struct MIMETypeTests {

  private static let isComplete =
    ["gio", "update-mime-database"].allSatisfy { Shell.run("command -v \($0)").status == 0 }
    && isThere("/usr/share/mime/packages/freedesktop.org.xml")

  @Test(
    .enabled(if: isComplete, "gio or the shared MIME database is not installed: Mount/setup installs them."))
  func packages_haveTheirOwnMIMETypesAndIcons() throws {
    let view = try MountedView { root in
      try TestTree.application("\(root)/Chess.app", named: "Chess")
      for name in [
        "Letter.rtfd/TXT.rtf", "Lib.photoslibrary/x", "Old.pages/Index.zip", "Track.logicx/x",
        "Proj.xcodeproj/x",
      ] {
        try put("x", at: "\(root)/\(name)")
      }
    }
    let data = view.source + ".data"
    makeDirectory("\(data)/mime/packages")
    let install = """
      cp '\(repository)/Mount/mime/displayfs.xml' '\(data)/mime/packages' && update-mime-database '\(data)/mime'
      """
    let installed = Shell.run(install)
    #expect(installed.status == 0, "\(installed.errorText)")
    let variables = [
      "XDG_DATA_HOME": data, "XDG_DATA_DIRS": "/usr/local/share:/usr/share", "GIO_USE_VFS": "local",
    ]
    for (name, type, icon) in [
      ("Chess", "application", "application"), ("Letter", "rtfd", "document"), ("Lib", "photos", "library"),
      ("Old", "pages", "document"), ("Proj", "project", "project"), ("Track", "package", "package"),
    ] {
      let info = Shell.run(
        ["gio", "info", "-a", "standard::content-type,standard::icon", view.at(name)], with: variables)
      let types = info.text.split(separator: "\n").filter { $0.contains("content-type: ") }
      #expect(types == ["  standard::content-type: application/x-displayfs-\(type)"], "\(name): \(info.text)")
      #expect(info.text.contains("application-x-displayfs-\(icon)"), "\(name): \(info.text)")
      #expect(isThere("\(repository)/Mount/icons/application-x-displayfs-\(icon).svg"))
    }
    // A program that does not know packages still knows archives.
    #expect(
      Shell.run("grep -qx 'application/x-displayfs-package application/x-tar' '\(data)/mime/subclasses'")
        .status == 0)
  }
}
