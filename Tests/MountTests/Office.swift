import Glibc
import Testing

/// LibreOffice without a screen, with a profile of its own.
final class Office {
  private let profile: TemporaryDirectory
  /// The longest that a run may take, in seconds.
  private let longest: Int

  init(longest: Int = 60) throws {
    profile = try TemporaryDirectory()
    self.longest = longest
    // The first run makes the profile, and would replace what is there.
    let made = run("--terminate_after_init")
    try #require(made.status == 0, "\(made.complaint)")
    try addMacro()
  }

  func run(_ arguments: String...) -> Outcome {
    Shell.run(words + arguments, with: ["HOME": profile.root], within: longest)
  }

  /// The argument of a run that changes a document three times, and saves it each time under the name that it was opened by.
  static func change(_ path: String) -> String { "macro:///Standard.Save.Change(\(path))" }

  /// Does the same in a plain directory and in a view, as `ProgramRun` does.
  ///
  /// - Parameter version: that of NFS, if LibreOffice runs where a client has mounted the two.
  func expectNoDifferenceOfSaving(
    byNFS version: String? = nil, _ location: SourceLocation = #_sourceLocation
  ) throws {
    // The text is saved in UTF-8 with a mark of the byte order.
    let run = ProgramRun(
      "LibreOffice", words.joined(separator: " ") + " \"\(Self.change("$PWD/$FILE"))\"",
      leaving: "\u{feff}" + ProgramRun.after, within: longest)
    try run.expectNoDifferenceByDisplayName(byNFS: version, location)
  }

  private var words: [String] {
    ["soffice", "-env:UserInstallation=file://\(profile.root)", "--headless", "--norestore"]
  }

  private func addMacro() throws {
    let library = profile.path("user/basic/Standard")
    try put(
      """
      <?xml version="1.0" encoding="UTF-8"?>
      <library:library xmlns:library="http://openoffice.org/2000/library" library:name="Standard"
        library:readonly="false" library:passwordprotected="false"><library:element library:name="Save"/></library:library>
      """, at: "\(library)/script.xlb")
    try put(
      """
      <?xml version="1.0" encoding="UTF-8"?>
      <script:module xmlns:script="http://openoffice.org/2000/script" script:name="Save" script:language="StarBasic">
      Sub Change(path As String)
        Dim hidden(0) As New com.sun.star.beans.PropertyValue
        hidden(0).Name = "Hidden"
        hidden(0).Value = True
        document = StarDesktop.loadComponentFromURL(ConvertToURL(path), "_blank", 0, hidden())
        For Each words In Array("first text", "second text", "new text")
          document.Text.setString(words)
          document.store()
        Next
        document.close(True)
      End Sub
      </script:module>
      """, at: "\(library)/Save.xba")
  }
}
