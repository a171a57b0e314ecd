import Glibc
import Testing

/// The daemon is killed right before each of the system calls that change the tree, one after the other, in the middle of
/// an operation that takes several.
@Suite(.mounting, .tracing) struct KillTests {
  private static let calls = ["renameat2", "unlinkat", "mkdirat", "linkat"]

  /// Runs `script` in a new view once for every call that it makes the daemon make, and once to its end.
  ///
  /// - Parameters:
  ///   - left: what must hold of the backing tree right after each kill.
  ///   - end: what must hold once the view is mounted again, and after the script has come to its end.
  private func killAtEveryStep(
    of script: String, _ options: String = "", build: (String) throws -> Void, left: (MountedView) -> Void,
    end: (MountedView) -> Void
  ) throws {
    var kills = 0
    for call in Self.calls {
      for number in 1...40 {
        let view = try MountedView(options, build: build)
        // The first request of a mount makes what later ones find.
        _ = view.listing()
        let tracer = try Tracer(
          of: try #require(view.daemon), at: call, "signal=KILL:when=\(number)")
        _ = view.shell(script)
        // The daemon goes on after its last reply, and may be killed then.
        _ = eventually(within: .work) {
          !isThere(view.mountPoint)
            || !names(view.source).contains { $0.description.hasPrefix(".displayfs-") }
        }
        if !isThere(view.mountPoint) {
          kills += 1
          tracer.stop()
          view.unmount()
          left(view)
          try view.mount(options)
          #expect(
            eventually(within: .work) {
              !view.realListing().contains { $0.description.hasPrefix(".displayfs-") }
            },
            "killed at \(call) \(number): \(view.realListing())")
          end(view)
        } else {
          tracer.stop()
          #expect(
            eventually(within: .work) {
              !view.realListing().contains { $0.description.hasPrefix(".displayfs-") }
            })
          end(view)
          break
        }
      }
    }
    #expect(kills > 1, "the script has changed nothing")
  }

  /// What the files and packages below the backing directory hold.
  private func held(_ view: MountedView) -> Set<FileName> {
    Shell.run("find . -path './.displayfs-*' -prune -o -type f -exec cat {} +", in: view.source).names
  }

  @Test func killDuringTwoStepRename_losesNoFile() throws {
    try killAtEveryStep(of: "mv -f photo trip") { root in
      try put("photo\n", at: "\(root)/photo.jpg")
      try put("trip\n", at: "\(root)/trip.png")
    } left: { view in
      #expect(held(view) == ["photo", "trip"])
    } end: { view in
      #expect(held(view).contains("photo"))
      #expect(held(view).contains("trip") || view.realListing() == ["trip.jpg"])
    }
  }

  @Test func killDuringPackageReplacement_keepsNewPackage() throws {
    try killAtEveryStep(of: "mv -f New Letter") { root in
      for name in ["New", "Letter"] {
        for part in ["a", "b"] { try put("\(name) \(part)\n", at: "\(root)/\(name).rtfd/\(part)") }
      }
    } left: { view in
      #expect(held(view).isSuperset(of: ["New a", "New b"]))
    } end: { view in
      #expect(held(view).isSuperset(of: ["New a", "New b"]))
      // The old one is there whole, or it is gone.
      #expect(held(view).isDisjoint(with: ["Letter a", "Letter b"]) || held(view).count == 4)
    }
  }

  @Test func killDuringReplacementOfEmptyDirectory_keepsNewDirectory() throws {
    try killAtEveryStep(of: "mv -f -T New Empty", "packages=directory") { root in
      try put("new\n", at: "\(root)/New.rtfd/TXT.rtf")
      makeDirectory("\(root)/Empty")
    } left: { view in
      #expect(held(view) == ["new"])
    } end: { view in
      #expect(held(view) == ["new"])
      #expect(["New.rtfd", "Empty.rtfd"].contains { text(view.real("\($0)/TXT.rtf")) == "new\n" })
    }
  }

  @Test func killDuringPackageRemoval_removesAllOrNothing() throws {
    try killAtEveryStep(of: "rm -f Letter") { root in
      for part in ["a", "b", "c/d"] { try put("\(part)\n", at: "\(root)/Letter.rtfd/\(part)") }
      try put("other\n", at: "\(root)/other.txt")
    } left: { view in
      #expect([1, 4].contains(held(view).count))
    } end: { view in
      #expect(held(view).contains("other") && [1, 4].contains(held(view).count))
      #expect([["other"], ["other", "Letter"]].contains(view.listing()))
    }
  }

  /// Where the stream has the package's name the two change places.
  @Test(arguments: ["Copy", "Copy.rtfd"]) func killDuringImport_leavesStreamOrPackage(name: String) throws {
    let original = try MountedView { root in
      for part in ["a", "b/c"] { try put("\(part)\n", at: "\(root)/Letter.rtfd/\(part)") }
    }
    let stream = try #require(contents(original.at("Letter")))
    func isWhole(_ view: MountedView) -> Bool {
      PackageTree.description(view.real("Copy.rtfd")) == PackageTree.description(original.real("Letter.rtfd"))
        || contents(view.real(name)) == stream
    }
    try killAtEveryStep(of: "cat \"$SOURCE.stick\" >\(name)") { root in
      try put(stream, at: "\(root).stick")
    } left: { view in
      #expect(isWhole(view))
    } end: { view in
      #expect(isWhole(view))
      #expect(view.realListing().isSubset(of: ["Copy", "Copy.rtfd"]))
    }
  }
}
