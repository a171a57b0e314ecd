import Glibc
import Testing

/// What is mounted on a directory of a view, or below it, and what works there, survives every change of other entries.
@Suite(.mounting, .asRoot) struct NestedMountTests {
  enum Change: CaseIterable {
    case packageRenamed, aliasRemoved, siblingMade, fileHidden, languageSet, directoryHidden,
      directoryAttributes
  }

  private func view() throws -> MountedView {
    try MountedView { root in
      makeDirectory("\(root)/Folder/Inner")
      makeDirectory("\(root)/Letter.rtfd")
      try put("text", at: "\(root)/Letter.rtfd/TXT.rtf")
      try put("text", at: "\(root)/report.txt")
    }
  }

  private func make(_ change: Change, in view: MountedView) throws {
    switch change {
    case .packageRenamed:
      #expect(isThere(view.at("Letter")) && isThere(view.at("Letter.rtfd/TXT.rtf")))
      #expect(rename(view.at("Letter"), view.at("Note")) == 0)
      #expect(!isThere(view.at("Letter")) && !isThere(view.at("Letter.rtfd")))
    case .aliasRemoved:
      #expect(isThere(view.at("report")) && isThere(view.at("report.txt")))
      #expect(unlink(view.at("report.txt")) == 0)
      #expect(!isThere(view.at("report")))
    case .siblingMade:
      #expect(isThere(view.at("report")))
      try put("other", at: view.at("report.pdf"))
      #expect(!isThere(view.at("report")))
    case .fileHidden:
      // As smbd does. (`DOSATTRIB`: the letter of the attribute "hidden")
      #expect(isThere(view.at("report")))
      #expect(setAttribute("user.DOSATTRIB", to: Array("0x22\0".utf8), of: view.at("report")) == nil)
      try waitUntil { !view.listing().contains("report") }
    case .languageSet: #expect(Displayfs.run(["set", view.mountPoint, "language=de"]).status == 0)
    case .directoryHidden:
      try put("Folder\n", at: view.real(".hidden"))
      try waitUntil { !view.listing().contains("Folder") }
    case .directoryAttributes: #expect(chmod(view.real("Folder"), 0o711) == 0)
    }
  }

  /// Once a later change is visible, the notifier threads have sent the notifications of all earlier changes.
  private func waitUntilSettled(_ view: MountedView) throws {
    try put("x", at: view.at("marker.txt"))
    #expect(isThere(view.at("marker")) && isThere(view.at("marker.txt")))
    #expect(unlink(view.at("marker.txt")) == 0)
    #expect(!isThere(view.at("marker")))
    #expect(isThere(view.at("Folder")) && isThere(view.at("Folder/Inner")))
  }

  @Test(arguments: Change.allCases) func mountBelowBindMount_afterChange_stays(change: Change) throws {
    let view = try view()
    let other = try TemporaryDirectory()
    #expect(mount(view.mountPoint, other.root, nil, UInt(MS_BIND), nil) == 0)
    defer { umount2(other.root, CInt(MNT_DETACH)) }
    #expect(mount("none", other.path("Folder/Inner"), "tmpfs", 0, nil) == 0)
    defer { umount2(other.path("Folder/Inner"), CInt(MNT_DETACH)) }
    try put("mine", at: other.path("Folder/Inner/mine"))
    try make(change, in: view)
    try waitUntilSettled(view)
    #expect(text(other.path("Folder/Inner/mine")) == "mine")
  }

  @Test(arguments: Change.allCases) func mountInAnotherMountNamespace_afterChange_stays(change: Change) throws
  {
    let view = try view()
    let signals = try TemporaryDirectory()
    let program = Shell.start(
      """
      exec unshare -m --propagation private sh -c 'mount -t tmpfs none \(view.at("Folder")) \
        && echo mine >\(view.at("Folder"))/mine && touch \(signals.path("mounted")) \
        && while [ ! -e \(signals.path("changed")) ]; do sleep 0.01; done \
        && cat \(view.at("Folder"))/mine >\(signals.path("found"))'
      """)
    defer {
      program.send(SIGKILL)
      program.wait()
    }
    try waitUntil { isThere(signals.path("mounted")) }
    try make(change, in: view)
    try waitUntilSettled(view)
    try put("", at: signals.path("changed"))
    program.wait()
    #expect(text(signals.path("found")) == "mine\n")
  }

  @Test(arguments: Change.allCases) func workingDirectory_afterChange_hasPath(change: Change) throws {
    let view = try view()
    let (changed, end) = (try TemporaryDirectory(), try TemporaryDirectory())
    let program = PythonProgram(
      """
      while not os.path.exists('\(end.path("end"))'):
          try: os.getcwd()
          except OSError as error: open('\(changed.path("failed"))', 'w').write(str(error))
          open('\(changed.path("ready"))', 'w')
      """, in: view.at("Folder/Inner")
    ).start()
    try waitUntil { isThere(changed.path("ready")) }
    try make(change, in: view)
    try waitUntilSettled(view)
    try put("", at: end.path("end"))
    program.wait()
    #expect(text(changed.path("failed")) == nil)
  }
}
