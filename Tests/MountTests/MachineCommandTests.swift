import CLinux
import Glibc
import SystemPackage
import Testing

/// The commands that report this machine and its mounts, and the human-readable `ls`.
@Suite(.mounting) struct MachineCommandTests {
  private func view() throws -> MountedView {
    try MountedView { root in try put("x", at: "\(root)/notes.txt") }
  }

  @Test func list_namesSourceAndMountPointOfEveryView() throws {
    let view = try view()
    let listed = Displayfs.run(["list"])
    #expect(listed.status == 0)
    #expect(listed.text.contains("\(view.source) on \(view.mountPoint) (rw,"), "\(listed.text)")
    let mine = try #require(object(of: view, Displayfs.run(["list", "--json"])))
    #expect(mine.contains("\"source\": \"\(view.source)\""))
    #expect(mine.contains("\"state\": \"answers\""))
    view.unmount()
    #expect(!Displayfs.run(["list"]).text.contains(view.mountPoint))
  }

  /// The object about a view in a list of JSON objects, one on each line.
  private func object(of view: MountedView, _ outcome: Outcome) -> Substring? {
    outcome.text.split(separator: "\n").first { $0.contains(view.mountPoint) }
  }

  @Test func deadMount_isReportedByListAndDoctor() throws {
    let view = try view()
    let daemon = try #require(view.daemon)
    #expect(kill(daemon, SIGKILL) == 0)
    try waitUntil { !isThere(view.mountPoint) }
    let line = Displayfs.run(["list"]).text.split(separator: "\n").first { $0.contains(view.mountPoint) }
    #expect(line?.contains("has died") == true)
    let doctor = Displayfs.run(["doctor"])
    #expect(doctor.status == 2)
    #expect(doctor.text.contains("displayfs unmount \(view.mountPoint)"), "\(doctor.text)")
  }

  /// A daemon that refuses INIT makes the kernel return ECONNREFUSED to every program. Linux 7.3 does so, too, once a daemon has
  /// ended that had not replied to INIT. (`fuse_get_req`)
  @Test(.asRoot) func mountThatRefusesConnections_isDead_andIsReplaced() throws {
    let view = try view()
    view.unmount()
    let refusing = PythonProgram(
      """
      import ctypes, struct
      device = os.open("/dev/fuse", os.O_RDWR)
      data = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
      if ctypes.CDLL(None).mount(b"source", b"\(view.mountPoint)", b"fuse.displayfs", 0, data): raise OSError("mount")
      request = os.read(device, 1 << 17)
      os.write(device, struct.pack("=IiQ", 16, -5, *struct.unpack_from("=Q", request, 8)))
      time.sleep(60)
      """
    ).start()
    defer {
      refusing.send(SIGTERM)
      refusing.wait()
    }
    try waitUntil {
      object(of: view, Displayfs.run(["list", "--json"]))?.contains("\"state\": \"dead\"") == true
    }
    #expect(Displayfs.run(["doctor"]).text.contains("the daemon of \(view.mountPoint) has died"))
    let outcome = Displayfs.run(["mount", view.source, view.mountPoint])
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(isThere(view.at("notes.txt")))
  }

  /// The calls fail with the error that a dead daemon causes, too.
  @Test(.asRoot, .programForAll) func viewWhoseSourceIsGone_isReportedAsFailing_andStaysMounted() throws {
    let lower = try MountedView("profile=none,allow_other") { root in try put("x", at: "\(root)/notes.txt") }
    let view = try MountedView("allow_other") { root in
      try #require(Shell.run("mount --bind '\(lower.mountPoint)' '\(root)'").status == 0)
    }
    #expect(view.listing() == ["notes"])
    let (served, daemon) = (try #require(lower.daemon), try #require(view.daemon))
    #expect(kill(served, SIGKILL) == 0)
    try waitUntil { !isThere(view.at("notes")) && errno == ENOTCONN }
    // An ordinary user does not see the daemon's process.
    for user in ["root", OrdinaryUser.owner] {
      let outcome = OrdinaryUser.run(user, [Displayfs.path, "list", "--json"])
      let listed = object(of: view, outcome)
      #expect(listed?.contains("\"state\": \"failing\"") == true, "\(user): \(outcome.complaint)")
    }
    let doctor = Displayfs.run(["doctor"])
    #expect(doctor.text.contains("\(view.mountPoint) shows a source that fails: "), "\(doctor.text)")
    let mount = Displayfs.run(["mount", lower.source, view.mountPoint])
    #expect(mount.status != 0 && mount.errorText.contains("its source fails: "), "\(mount.complaint)")
    #expect(view.daemon == daemon)
  }

  @Test func stoppedDaemon_isReportedAsSilentByListAndDoctor() throws {
    let view = try view()
    let daemon = try #require(view.daemon)
    #expect(kill(daemon, SIGSTOP) == 0)
    defer { kill(daemon, SIGCONT) }
    // Requests before the stop may have filled the kernel's caches. Until these expire the kernel replies without the daemon.
    try waitUntil {
      object(of: view, Displayfs.run(["list", "--json"]))?.contains("\"state\": \"silent\"") == true
    }
    let doctor = Displayfs.run(["doctor", "--json"])
    #expect(doctor.status == 2)
    #expect(doctor.text.contains("the daemon of \(view.mountPoint) does not respond"), "\(doctor.text)")
    #expect(doctor.text.contains("displayfs unmount --force \(view.mountPoint)"), "\(doctor.text)")
  }

  @Test func statusAndSet_withoutMount_reportThatThereIsNone() throws {
    let place = try TemporaryDirectory()
    for path in [place.root, place.path("absent")] {
      for command in [["status", path], ["set", path, "language=de"]] {
        let outcome = Displayfs.run(command)
        #expect(outcome.status != 0 && outcome.errorText.contains("\(path): no displayfs is mounted here"))
      }
    }
  }

  /// The backing file system does not reply. So each request to the view waits, and its client cannot even be killed.
  @Test(.asRoot) func commands_aboveStoppedFileSystem_end() throws {
    let lower = try MountedView("profile=none") { root in try put("x", at: "\(root)/notes.txt") }
    let view = try MountedView { root in
      try #require(Shell.run("mount --bind '\(lower.mountPoint)' '\(root)'").status == 0)
    }
    #expect(view.listing() == ["notes"])
    let stopped = try #require(lower.daemon)
    // So that nothing waits for ever.
    let rescue = Shell.start("sleep 100; kill -CONT \(stopped)", within: 120)
    kill(stopped, SIGSTOP)
    defer {
      kill(stopped, SIGCONT)
      rescue.send(SIGTERM)
      rescue.wait()
    }
    // The pipe ends when the last process that has it open does.
    let list = Shell.run("'\(Displayfs.path)' list | cat")
    #expect(list.status == 0 && list.text.contains(view.mountPoint), "\(list.complaint)")
    for command in [
      ["status", view.mountPoint], ["explain", view.at("notes")], ["set", view.mountPoint, "language=de"],
    ] {
      let outcome = Displayfs.run(command)
      let isReported = outcome.errorText.contains("has not replied for 10 seconds")
      #expect(outcome.status != 0 && isReported, "\(command): \(outcome.complaint)")
    }
  }

  @Test func doctor_checksEveryDependency() throws {
    let report = Displayfs.run(["doctor"]).text
    for check in [
      "/dev/fuse", "fusermount3", "user_allow_other", "kernel", "inotify", "file types",
      "/sbin/mount.displayfs", "displayfs-picture",
    ] {
      #expect(report.contains(check), "\(check) in \(report)")
    }
    if isPassthroughExpected { #expect(report.contains("displayfs-passthrough")) }
    let governor = text("/sys/devices/system/cpu/cpuidle/current_governor")
    #expect(report.contains("idle processors") == (governor == "haltpoll\n"))
  }

  /// The files that stand in for those of the kernel are mounted over them in a namespace of the command alone.
  @Test(
    .asRoot,
    .enabled(
      if: isThere("/proc/sys/fs/fuse/max_request_timeout"), "Linux has request timeouts since 6.15."),
    arguments: [(0, 0, nil), (0, 300, 300), (60, 300, 60)] as [(Int, Int, Int?)])
  func requestTimeout_isReportedByDoctor(standard: Int, maximum: Int, seconds: Int?) throws {
    let directory = try TemporaryDirectory()
    try put("\(standard)\n", at: directory.path("default_request_timeout"))
    try put("\(maximum)\n", at: directory.path("max_request_timeout"))
    let doctor = Shell.run(
      """
      unshare -m sh -ec 'for name in default max; do
        mount --bind ${name}_request_timeout /proc/sys/fs/fuse/${name}_request_timeout
      done; exec "\(Displayfs.path)" doctor'
      """, in: directory.root)
    let line = doctor.text.split(separator: "\n").first { $0.contains("request timeout: ") } ?? ""
    #expect(line.hasPrefix(seconds == nil ? "ok " : "advice "), "\(doctor.complaint)")
    if let seconds { #expect(line.contains("within \(seconds) seconds"), "\(line)") }
  }

  /// The daemon of an ordinary user has no guardian without it.
  @Test(.asRoot, arguments: [false, true]) func missingFusectl_isReportedToOrdinaryUser(isMounted: Bool) {
    let place = "/sys/fs/fuse/connections"
    let mounting =
      isMounted
      ? "mountpoint -q \(place) || mount -t fusectl none \(place)" : "while umount -q \(place); do :; done"
    let doctor = Shell.run([
      "unshare", "-m", "sh", "-c",
      "\(mounting); exec setpriv --reuid=games --regid=games --clear-groups \"$@\"", "sh",
      Displayfs.path, "doctor",
    ])
    #expect(doctor.text.contains("fusectl") != isMounted, "\(doctor.complaint)")
  }

  @Test func doctor_reportsOnSource() throws {
    let view = try view()
    try put("x", at: view.real("trip.png"))
    try put("x", at: view.real("trip.txt"))
    let report = Displayfs.run(["doctor", view.source]).text
    #expect(report.contains("extended attributes: \(view.source)"))
    #expect(report.contains("nested mounts"))
    #expect(report.contains("2 entries"), "\(report)")
    #expect(report.contains(view.real("trip.png")))
    makeDirectory(view.real("inside"))
    #expect(Displayfs.run([view.source, view.real("inside")]).status == 0)
    defer { _ = Displayfs.run(["unmount", view.real("inside")]) }
    #expect(
      Displayfs.run(["doctor", view.source]).text.contains("\(view.real("inside")) lies in its own source"))
    #expect(Displayfs.run(["doctor", view.real("absent")]).status == 2)
  }

  @Test func status_printsTextOrJSONAndRequestsPerSecond() throws {
    let view = try view()
    #expect(view.listing() == ["notes"])
    let text = Displayfs.run(["status", view.mountPoint]).text
    for line in ["known files: ", "memory: ", "requests: "] { #expect(text.contains(line), "\(text)") }
    let json = Displayfs.run(["status", "--json", view.mountPoint]).text
    #expect(json.hasPrefix("{") && json.contains("\"known files\": \""), "\(json)")
    #expect(text.contains("listings read: 1"), "\(text)")
    // The second report counts the requests between the two reports.
    let watched = Shell.run(
      "'\(Displayfs.path)' status --watch '\(view.mountPoint)' | grep -m 1 'requests per second'")
    #expect(watched.text.contains("getxattr"), "\(watched.complaint)")
  }

  @Test func statusWithCommand_reportsItsRequestsAndExitStatus() throws {
    let view = try MountedView { root in try put("x", at: "\(root)/Sub/notes.txt") }
    func measured(_ script: String) -> Outcome {
      Displayfs.run(["status", view.mountPoint, "--", "sh", "-c", script])
    }
    let first = measured("ls '\(view.at("Sub"))'")
    #expect(first.text.hasPrefix("notes\n"), "\(first.complaint)")
    #expect(first.text.contains("listings read: 1\n") && first.text.contains("opendir"), "\(first.text)")
    let second = measured("ls '\(view.at("Sub"))' >/dev/null; exit 7")
    #expect(
      second.text.contains("listings read: 0\n"), "what is remembered is not read again: \(second.text)")
    #expect(second.status == 7)
    #expect(!measured("true").text.contains("opendir"), "only what happened meanwhile counts")
  }

  @Test func version_namesEveryComponent() {
    for option in ["--version", "-V"] {
      let version = Displayfs.run([option])
      #expect(version.status == 0)
      for part in [
        "displayfs version ", "FUSE library version ", "using FUSE kernel interface version ", "Swift ",
      ] {
        #expect(version.text.contains(part), "\(version.text)")
      }
    }
  }

  static let shells = ["bash", "zsh", "fish"]

  @Test(arguments: shells) func completions_containCommands(shell: String) {
    let script = Displayfs.run(["completions", shell])
    #expect(script.status == 0)
    #expect(script.text.contains("realpath"))
  }

  @Test(arguments: shells.filter { Shell.run(["which", $0]).status == 0 })
  func completions_areValidScriptsOfTheirShell(shell: String) throws {
    let directory = try TemporaryDirectory()
    let parsed = Shell.run(
      "'\(Displayfs.path)' completions \(shell) >script; \(shell) -n script", in: directory.root)
    #expect(parsed.status == 0, "\(parsed.errorText)")
  }

  /// What bash completes `displayfs mount -o ` with.
  private func offeredOptions() throws -> Set<String> {
    let script = """
      source <('\(Displayfs.path)' completions bash)
      COMP_WORDS=(displayfs mount -o ""); COMP_CWORD=3; COMP_LINE="displayfs mount -o "; COMP_POINT=${#COMP_LINE}
      _displayfs_joining_words displayfs "" -o 2>/dev/null; printf '%s\\n' "${COMPREPLY[@]}"
      """
    let place = try view()
    try put(script, at: place.real("script"))
    let bin = String(Displayfs.path.prefix(upTo: Displayfs.path.lastIndex(of: "/")!))
    let options = Shell.run("PATH='\(bin)':$PATH bash --norc script", in: place.source)
    let offered = Set(options.text.split(separator: "\n").map(String.init))
    try #require(
      offered.isSuperset(of: ["language=", "passthrough=on", "disabled-rules=dot-files", "timeout=", "ro"]),
      "\(options.complaint)")
    return offered
  }

  @Test(.needing("bash")) func manual_documentsEveryOption() throws {
    let names = Set(try offeredOptions().map { String($0.prefix { $0 != "=" }) })
    let manual = try #require(text("\(repository)/man/displayfs.1"))
    let words = Set(manual.split(whereSeparator: { " \n=".contains($0) }).map(String.init))
    #expect(names.subtracting(words) == [])
  }

  @Test(.needing("bash")) func manual_documentsEveryValue_inTheEntryOfItsOption() throws {
    let lines = try #require(text("\(repository)/man/displayfs.1")).split(separator: "\n")
    for offered in try offeredOptions() {
      let parts = offered.split(separator: "=")
      guard parts.count == 2 else { continue }
      let start = try #require(lines.firstIndex { $0.hasPrefix(".It Cm \(parts[0])=") }, "\(offered)")
      let entry = lines[start...].dropFirst().prefix { !$0.hasPrefix(".Ss") && !$0.contains("= Ns") }
      let words = (lines[start...start] + entry).flatMap { $0.split(separator: " ") }
      #expect(words.contains(parts[1]), "\(offered)")
    }
  }

  /// Another user may have named a mount point; a terminal obeys control characters, and a proposed command is run by hand.
  @Test(.mounting, .needing("python3")) func nameOfMountPoint_isPlainOnTerminalAndInCommands() throws {
    let place = try TemporaryDirectory()
    let (source, mountPoint) = (place.path("source"), place.path("a\u{1B}[31m\u{9B}31m;b'c"))
    for path in [source, mountPoint] { try #require(mkdir(path, 0o755) == 0) }
    try #require(Displayfs.run(["mount", source, mountPoint]).status == 0)
    defer { _ = Displayfs.run(["unmount", mountPoint]) }
    for command in ["list", "doctor", "mount '\(source)' \"$MOUNTPOINT\""] {
      let shown = Shell.run(
        [
          "python3", "-c", "import pty, sys; pty.spawn(['/bin/sh', '-c', sys.argv[1]])",
          "'\(Displayfs.path)' \(command)",
        ],
        with: ["MOUNTPOINT": mountPoint])
      #expect(!shown.text.unicodeScalars.contains { $0 == "\u{1B}" || $0 == "\u{9B}" }, "\(command)")
      #expect(shown.text.contains("a?[31m?31m;b"), "\(command): \(shown.complaint)")
    }
    let refused = Displayfs.run(["mount", source, mountPoint])
    #expect(
      refused.errorText.hasSuffix(
        #"run displayfs unmount '\#(mountPoint.replacing("'", with: #"'\''"#))' first"#))
  }

  /// The names of mount points may be another user's.
  @Test(.mounting, .needing("bash")) func completion_ofMountPoint_isNotExpanded() throws {
    let place = try TemporaryDirectory()
    let (source, mountPoint) = (place.path("source"), place.path("view $(touch made) `touch made`"))
    for path in [source, mountPoint] { try #require(mkdir(path, 0o755) == 0) }
    try #require(Displayfs.run(["mount", source, mountPoint]).status == 0)
    defer { _ = Displayfs.run(["unmount", mountPoint]) }
    let script = #"""
      source <(displayfs completions bash)
      COMP_WORDS=(displayfs unmount "$PWD/v"); COMP_CWORD=2; COMP_LINE="displayfs unmount $PWD/v"
      COMP_POINT=${#COMP_LINE}
      _displayfs_joining_words displayfs "$PWD/v" unmount; printf '%s\n' "${COMPREPLY[@]}"
      """#
    try put(script, at: place.path("script"))
    let bin = String(Displayfs.path.prefix(upTo: Displayfs.path.lastIndex(of: "/")!))
    let outcome = Shell.run("PATH='\(bin)':$PATH bash --norc script", in: place.root)
    #expect(outcome.text == mountPoint, "\(outcome.complaint)")
    #expect(!isThere(place.path("made")))
  }

  /// zsh takes what follows a colon for the description of a completion.
  @Test(arguments: [
    "zsh": "disabled-rules=volumes\\:home-library", "fish": "disabled-rules=volumes:home-library",
  ])
  func completionOfList_isQuotedForItsShell(shell: String, completion: String) {
    let words = ["displayfs", "mount", "-o", "disabled-rules=volumes:home"]
    let outcome = Displayfs.run(
      ["---completion", "mount", "--", "-o", "3", "27"] + words, with: ["SAP_SHELL": shell])
    #expect(outcome.text.split(separator: "\n").first == completion[...], "\(outcome.complaint)")
  }

  /// Calls the completion as bash does: with the words, split at equals signs and colons, the index of the current word, and the
  /// line up to the cursor.
  @Test(.needing("bash")) func completions_offerValuesOfOptions() throws {
    let place = try view()
    let script = """
      source <('\(Displayfs.path)' completions bash)
      complete_after() {
        COMP_WORDS=(displayfs mount -o "$@"); COMP_CWORD=$((2 + $#))
        COMP_LINE="displayfs mount -o $(printf %s "$@")"; COMP_POINT=${#COMP_LINE}
        COMPREPLY=(); _displayfs_joining_words displayfs "${!##[=:]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>/dev/null
        echo "${COMPREPLY[@]}"
      }
      [[ $(complete -p displayfs) = *"-F _displayfs_joining_words displayfs" ]] || echo "another function"
      complete_after ext; complete_after ro,hid; complete_after ro,tunnel = o; complete_after import =; complete_after lang; complete_after passthrough =
      complete_after disabled-rules = vol; complete_after ro,disabled-rules = volumes : vol
      complete_after disabled-rules = dot-files : icon-files :; complete_after disabled-rules = volumes : h
      complete_after disabled-rules =
      """
    try put(script, at: place.real("script"))
    let bin = String(Displayfs.path.prefix(upTo: Displayfs.path.lastIndex(of: "/")!))
    let outcome = Shell.run("PATH='\(bin)':$PATH bash --norc script", in: place.source)
    let lines = outcome.text.split(separator: "\n", omittingEmptySubsequences: false)
    #expect(
      lines.first == "extensions=hide extensions=all extensions=flag extensions=show", "\(outcome.complaint)")
    #expect(
      lines.dropFirst().first == "ro,hidden=reach ro,hidden=deny ro,hidden=show", "\(outcome.complaint)")
    #expect(lines.dropFirst(2).prefix(4) == ["off", "on off", "language=", "on off"], "\(outcome.complaint)")
    try #require(lines.count == 11, "\(outcome.complaint)")
    #expect(lines[6...7] == ["volume-root-names volumes", "volume-root-names"])
    #expect(lines[9] == "hidden-lists home-library")
    // After a colon, the rules that the list does not have yet.
    let rules = lines[10].split(separator: " ")
    #expect(Set(rules).isSuperset(of: ["dot-files", "icon-files", "archive-metadata"]))
    #expect(lines[8].split(separator: " ") == rules.filter { !["dot-files", "icon-files"].contains($0) })
  }
}

/// `ls` as people read it.
@Suite struct TreeListingTests {
  private func tree() throws -> TemporaryDirectory {
    let directory = try TemporaryDirectory()
    try put("x", at: directory.path("notes.txt"))
    try put("x", at: directory.path("Letter.rtfd/TXT.rtf"))
    try put("x", at: directory.path("Sub/a.pdf"))
    try put("\"Sub\" = \"Unter\";\n", at: directory.path("Sub/Sub.localized/.localized/de.strings"))
    try put("x", at: directory.path(".secret"))
    return directory
  }

  private func list(
    _ directory: TemporaryDirectory, _ arguments: [String], _ variables: [String: String] = [:]
  )
    -> String
  {
    let outcome = Displayfs.run(
      ["ls", "-o", "language=de,profile=plain", "--source", directory.root] + arguments + [directory.root],
      with: variables)
    #expect(outcome.status == 0, "\(outcome.complaint)")
    return outcome.text
  }

  @Test func lsTree_showsNestedEntries() throws {
    let directory = try tree()
    #expect(
      list(directory, ["--tree"]) == """
        ├── Letter
        ├── notes
        └── Sub
            ├── a
            └── Unter
        """)
    #expect(list(directory, ["--tree", "--json"]).contains("\(directory.path("Sub/a.pdf"))"))
    #expect(list(directory, ["--tree", "-a"]).contains("├── .secret"))
  }

  @Test func lsColors_distinguishKindsOfEntries() throws {
    let directory = try tree()
    let lines = list(directory, ["-a", "--tree", "--color", "always"])
    for part in [
      "\u{1B}[1;35mLetter\u{1B}[0m", "\u{1B}[1;34mSub\u{1B}[0m", "\u{1B}[1;34;4mUnter\u{1B}[0m",
      "\u{1B}[2m.secret\u{1B}[0m", "── notes",
    ] {
      #expect(lines.contains(part), "\(part) in \(lines)")
    }
  }

  @Test func ls_withoutTerminal_printsNoColors() throws {
    #expect(!list(try tree(), []).contains("\u{1B}"))
  }

  /// script(1) gives its program a terminal.
  @Test(.needing("script")) func lsColors_respectNO_COLOR() throws {
    let directory = try tree()
    func onTerminal(_ variables: [String: String]) -> Outcome {
      Shell.run(
        [
          "script", "-qec", "'\(Displayfs.path)' ls --source '\(directory.root)' '\(directory.root)'",
          "/dev/null",
        ],
        with: ["TERM": "xterm"].merging(variables) { $1 })
    }
    #expect(!onTerminal(["NO_COLOR": "1"]).text.contains("\u{1B}["))
    #expect(onTerminal(["NO_COLOR": ""]).text.contains("\u{1B}["))
    #expect(!onTerminal(["TERM": "dumb"]).text.contains("\u{1B}["))
  }
}
