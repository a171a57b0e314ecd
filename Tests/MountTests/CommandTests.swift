import CLinux
import Glibc
import SystemPackage
import Testing

@Suite(.mounting) struct MountCommandTests {
  private func view(_ options: String = "") throws -> MountedView {
    try MountedView(options) { root in try put("x", at: "\(root)/notes.txt") }
  }

  /// A backing tree and a mount point with nothing mounted.
  private func unmounted() throws -> MountedView {
    let view = try view()
    view.unmount()
    return view
  }

  @Test func mount_withInvalidArguments_reportsThem() throws {
    let place = try unmounted()
    let (source, mountPoint) = (place.source, place.mountPoint)
    let cases: [(arguments: [String], says: [String])] = [
      (["\(source)/absent", mountPoint], ["\(source)/absent", "no such directory", "mkdir"]),
      ([source, "\(mountPoint)/absent"], ["\(mountPoint)/absent", "no such directory"]),
      (["\(source)/notes.txt", mountPoint], ["\(source)/notes.txt", "not a directory"]),
      ([source, "\(source)/notes.txt"], ["\(source)/notes.txt", "not a directory"]),
      (["-o", "extentions=all", source, mountPoint], ["extentions=all", "did you mean extensions"]),
      (["-o", "ro,allow_others", source, mountPoint], ["allow_others", "did you mean allow_other"]),
      (["-o", "lang=de", source, mountPoint], ["lang=de", "did you mean language"]),
      (["-o", "entirely_unknown", source, mountPoint], ["entirely_unknown", "no such option"]),
      (["-o", "extensions=hyde", source, mountPoint], ["extensions=hyde", "hide", "all", "flag", "show"]),
      (["-o", "hidden=maybe", source, mountPoint], ["hidden=maybe", "reach", "deny", "show"]),
      (["-o", "profile=windows", source, mountPoint], ["profile=windows", "macos"]),
      (["-o", "packages=folder", source, mountPoint], ["packages=folder", "directory"]),
      (["-o", "tunnel=never", source, mountPoint], ["tunnel=never", "process", "time", "off"]),
      (["-o", "tunnel-timeout=soon", source, mountPoint], ["tunnel-timeout=soon"]),
      (["-o", "extensions", source, mountPoint], ["extensions=..."]),
      ([source], ["mountpoint"]),
    ]
    for (arguments, says) in cases {
      let outcome = Displayfs.run(["mount"] + arguments)
      #expect(outcome.status == 1, "\(arguments)")
      for part in says { #expect(outcome.errorText.contains(part), "\(arguments): \(outcome.errorText)") }
      #expect(outcome.text.isEmpty)
    }
    #expect(!Displayfs.isMounted(mountPoint))
  }

  @Test func mount_withoutSubcommand_succeeds() throws {
    let place = try unmounted()
    #expect(
      Displayfs.run([place.source, place.mountPoint, "-o", "language=en", "-o", "extensions=show"]).status
        == 0)
    #expect(place.listing() == ["notes.txt"])
  }

  @Test func option_joinedToItsLetter_isAccepted() throws {
    let place = try unmounted()
    #expect(Displayfs.run(["mount", "-oextensions=show", place.source, place.mountPoint]).status == 0)
    #expect(place.listing() == ["notes.txt"])
  }

  @Test func mount_whenCommandReturns_servesRequests() throws {
    let place = try unmounted()
    for _ in 0..<5 {
      #expect(Displayfs.run([place.source, place.mountPoint, "-o", "language=en"]).status == 0)
      #expect(place.listing() == ["notes"])
      #expect(Displayfs.run(["unmount", place.mountPoint]).status == 0)
      #expect(place.listing() == [])
    }
  }

  /// As when a user unmounts the view of a disk and then removes the disk.
  @Test(.asRoot) func backingFileSystem_whenUnmountReturns_isFree() throws {
    let place = try unmounted()
    let disk = place.real("disk")
    makeDirectory(disk)
    for _ in 0..<10 {
      try #require(Shell.run(["mount", "-t", "tmpfs", "tmpfs", disk]).status == 0)
      for number in 0..<50 { try put("x", at: "\(disk)/Folder \(number)/notes.txt") }
      #expect(Displayfs.run([disk, place.mountPoint]).status == 0)
      #expect(Shell.run("ls -R >/dev/null", in: place.mountPoint).status == 0)
      let reportsChanges = Shell.run("grep -qs fuse_connection /proc/[0-9]*/fdinfo/*").status == 0
      #expect(Displayfs.run(["unmount", place.mountPoint]).status == 0)
      #expect(failure { umount(disk) } == nil || !reportsChanges)
      umount2(disk, 2 /* MNT_DETACH */)
    }
  }

  /// Else files of the daemon would get the numbers of standard descriptors.
  @Test func mount_withStandardDescriptorsClosed_servesRequests() throws {
    let place = try unmounted()
    let outcome = Shell.run(
      "timeout 20 '\(Displayfs.path)' '\(place.source)' '\(place.mountPoint)' -o language=en <&- >&- 2>&-")
    #expect(outcome.status == 0)
    #expect(place.listing() == ["notes"])
    let daemon = try #require(place.daemon)
    for standard in 0...2 {
      #expect(Shell.run("readlink /proc/\(daemon)/fd/\(standard)").text == "/dev/null")
    }
  }

  @Test func procMounts_listsSourceAndType() throws {
    let view = try view()
    let line = view.shell("grep -F \" $VIEW \" /proc/mounts").text.split(separator: " ")
    #expect(line.first.map(String.init) == view.source)
    #expect(line.dropFirst(2).first == "fuse.displayfs")
  }

  /// By mount(2), and by way of fusermount3.
  @Test(.programForAll, arguments: [false, true]) func sourceAndMountPoint_withNonUTF8Names_work(asUser: Bool)
    throws
  {
    let base = try TemporaryDirectory()
    chmod(base.root, 0o777)
    let change =
      asUser && geteuid() == 0 ? ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] : []
    let script = """
      cd "$BASE"; source=$PWD/$(printf 'a \\377,\\314\\201\\134b'); view=$PWD/$(printf 'v\\351')
      mkdir "$source" "$view"; echo x >"$source/notes.txt"
      "$DISPLAYFS" "$source" "$view" -o language=en
      ls "$view"
      "$DISPLAYFS" list | grep -aFc "$source on $view ("
      "$DISPLAYFS" realpath "$view/notes" | grep -aFxc "$source/notes.txt"
      "$DISPLAYFS" unmount "$view"
      """
    let outcome = Shell.run(
      change + ["/bin/sh", "-ec", script], with: ["BASE": base.root, "DISPLAYFS": Displayfs.path])
    #expect(outcome.text == "notes\n1\n1" && outcome.status == 0, "\(outcome.complaint)")
  }

  @Test func fstabOptions_areAccepted() throws {
    let place = try unmounted()
    let options = """
      defaults,rw,nofail,noauto,_netdev,user,users,owner,group,nodev,nosuid,noexec,noatime,x-systemd.automount,\
      x-gvfs-show,X-own=1,comment=hello,relatime,language=en,,fsname=a\\,b
      """
    let outcome = Displayfs.run(["mount", "-o", options, place.source, place.mountPoint])
    #expect(outcome.status == 0, "\(outcome.errorText)")
    #expect(place.listing() == ["notes"])
    #expect(place.shell("grep -F \" $VIEW \" /proc/mounts").text.hasPrefix("a,b "))
  }

  /// A combining mark makes one character of itself and the sign before it, which separates all the same.
  @Test func options_withCombiningMarksAfterSigns_areSeparated() throws {
    let place = try unmounted()
    let options = "fsname=\u{301}a\\,\u{301}b,x-\u{301}name=\u{301},\u{301}x,language=en"
    let outcome = Displayfs.run(["mount", "-o", options, place.source, place.mountPoint])
    #expect(
      outcome.status == 1 && outcome.errorText.contains("-o \u{301}x: no such option"), "\(outcome.complaint)"
    )
    let without = options.unicodeScalars.split(separator: ",").filter {
      !$0.elementsEqual("\u{301}x".unicodeScalars)
    }
    let accepted = Displayfs.run([
      "mount", "-o", without.map { String($0) }.joined(separator: ","), place.source, place.mountPoint,
    ])
    #expect(accepted.status == 0, "\(accepted.complaint)")
    #expect(place.listing() == ["notes"])
    #expect(place.shell("grep -cF \"\u{301}a,\u{301}b $VIEW \" /proc/mounts").text == "1")
  }

  @Test func language_isTakenFromEnvironment() throws {
    let place = try MountedView { root in
      try put("\"Notes\" = \"Notizen\";\n", at: "\(root)/Notes.localized/.localized/de.strings")
    }
    place.unmount()
    for (variables, shown) in [
      (["LANG": "de_DE.UTF-8", "LC_ALL": ""], "Notizen"), (["LC_ALL": "de_AT.UTF-8"], "Notizen"),
      (["LANGUAGE": "xx:de", "LC_ALL": "en_US.UTF-8"], "Notizen"), (["LC_ALL": "C"], "Notes"),
      (["LC_ALL": "C", "LANGUAGE": "de"], "Notes"), (["LC_ALL": "fr_FR"], "Notes"),
    ] {
      #expect(Displayfs.run(["mount", place.source, place.mountPoint], with: variables).status == 0)
      #expect(place.listing() == [FileName(shown)], "\(variables)")
      #expect(Displayfs.run(["unmount", place.mountPoint]).status == 0)
    }
  }

  @Test func mount_onMountedView_isRefusedAsBusy() throws {
    let view = try view()
    let outcome = Displayfs.run(["mount", view.source, view.mountPoint])
    #expect(outcome.status == 32)
    #expect(outcome.errorText.contains("displayfs unmount"), "\(outcome.errorText)")
    #expect(view.listing() == ["notes"])
  }

  /// Other users choose names, and the command may be pasted as it is. A mark after an apostrophe, or U+0600 before it, makes
  /// another character of both, which is still an apostrophe to a shell.
  @Test(arguments: [
    "it's $(touch seen)", "'\u{301}$(touch seen)'\u{301}", "\u{600}'$(touch seen)\u{600}'",
    "a\u{301}`touch seen`'",
    "'\n$(touch seen)",
  ]) func proposedCommand_withNameOfMountPoint_isOneWordOfIt(name: String) throws {
    let place = try TemporaryDirectory()
    let (source, mountPoint) = (place.path("source"), place.path(name))
    for directory in [source, mountPoint] { makeDirectory(directory) }
    defer { umount2(mountPoint, 2 /* MNT_DETACH */) }
    try #require(Displayfs.run(["mount", source, mountPoint]).status == 0)
    let refused = Displayfs.run(["mount", source, mountPoint]).errorText
    let end = " first"
    try #require(refused.hasSuffix(end), "\(refused)")
    let start = try #require(refused.firstRange(of: "run displayfs unmount "), "\(refused)")
    let word = refused[start.upperBound...].dropLast(end.count)
    let outcome = Shell.run("printf %s \(word)", in: place.root)
    #expect(outcome.text == mountPoint, "\(word)")
    #expect(!isThere(place.path("seen")))
  }

  @Test func deadMount_isReportedAndCanBeUnmounted() throws {
    let view = try view()
    let daemon = try #require(view.daemon)
    #expect(kill(daemon, SIGKILL) == 0)
    try waitUntil { !isThere(view.mountPoint) }
    #expect(failure { open(view.at("notes"), O_RDONLY) } == .socketNotConnected)
    let refused = Displayfs.run(["mount", view.mountPoint, view.source])
    #expect(refused.status == 32)
    #expect(refused.errorText.contains("displayfs unmount \(view.mountPoint)"), "\(refused.errorText)")
    #expect(Displayfs.run(["unmount", view.mountPoint]).status == 0)
    #expect(!Displayfs.isMounted(view.mountPoint))
    try view.mount()
    #expect(view.listing() == ["notes"])
  }

  @Test func unmount_ofPathWithoutMount_fails() throws {
    let place = try unmounted()
    for path in [place.mountPoint, place.source + "/absent"] {
      let outcome = Displayfs.run(["unmount", path])
      #expect(outcome.status == 32)
      #expect(
        outcome.errorText.contains(path) && outcome.errorText.contains("nothing is mounted"),
        "\(outcome.errorText)")
    }
  }

  @Test func unmount_ofBusyMount_requiresLazyOption() throws {
    let view = try view()
    let file = try OpenFile(view.at("notes"), O_RDWR)
    let refused = Displayfs.run(["unmount", view.mountPoint])
    #expect(refused.status == 32)
    #expect(refused.errorText.contains("busy") && refused.errorText.contains("-z"), "\(refused.errorText)")
    #expect(view.listing() == ["notes"])
    #expect(Displayfs.run(["unmount", "-z", view.mountPoint]).status == 0)
    #expect(!Displayfs.isMounted(view.mountPoint))
    #expect(file.text() == "x")
    #expect(file.write("still", at: 0) == 5)
    #expect(text(view.real("notes.txt")) == "still")
  }

  @Test func unmount_ofBusyMount_namesBusyProcesses() throws {
    let view = try view()
    let sitting = Shell.start("cd '\(view.mountPoint)' && exec sleep 50")
    let reading = Shell.start("exec sleep 51 <'\(view.at("notes"))'")
    defer {
      for process in [sitting, reading] {
        process.send(SIGTERM)
        process.wait()
      }
    }
    var message = ""
    try waitUntil {
      let refused = Displayfs.run(["unmount", view.mountPoint])
      #expect(refused.status == 32)
      message = refused.errorText
      return message.contains("has its working directory there") && message.contains("has a file open there")
    }
    #expect(message.contains("sleep (") && message.contains("-z"), "\(message)")
    #expect(view.listing() == ["notes"])
  }

  @Test func unresponsiveMount_isUnmountedByForce() throws {
    let view = try view()
    let daemon = try #require(view.daemon)
    kill(daemon, SIGSTOP)
    defer { kill(daemon, SIGKILL) }
    let waiting = Shell.start("exec cat '\(view.at("notes"))'")
    let told = Displayfs.run(["mount", view.source, view.mountPoint])
    #expect(told.status == 32 && told.errorText.contains("unmount --force"), "\(told.complaint)")
    #expect(Displayfs.run(["unmount", "--force", view.mountPoint]).status == 0)
    #expect(waiting.wait() != 0)
    #expect(!Displayfs.isMounted(view.mountPoint))
    try view.mount()
    #expect(view.listing() == ["notes"])
  }

  @Test(.asRoot, .programForAll) func unmount_ofAnotherUsersMount_isRefusedWithItsOwner() throws {
    let view = try view("allow_other")
    let change = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", Displayfs.path]
    let outcome = Shell.run(change + ["unmount", view.mountPoint])
    #expect(
      outcome.status == 1 && outcome.errorText.contains("was mounted by user 0"), "\(outcome.complaint)")
    #expect(view.listing() == ["notes"])
  }

  @Test func daemon_afterUnmount_ends() throws {
    let view = try view()
    let daemon = try #require(view.daemon)
    view.unmount()
    #expect(eventually(within: .work) { failure { kill(daemon, 0) } == .noSuchProcess })
  }

  @Test func daemon_unmountedAfterManyForgets_ends() throws {
    let view = try view()
    let daemon = try #require(view.daemon)
    #expect(view.shell("mkdir many && (cd many && seq 5000 | xargs touch) && rm -r many").status == 0)
    // The unmount comes in the last half second in which the daemon waits for more FORGETs, before it returns their memory.
    usleep(500_000)
    view.unmount()
    #expect(eventually(within: .work) { failure { kill(daemon, 0) } == .noSuchProcess })
  }

  /// Swift's runtime must not be used by the thread that forked; no signal wakes it.
  @Test func forkingThread_blocksAllSignals() throws {
    let view = try view()
    let daemon = try #require(view.daemon)
    let lines = (text("/proc/\(daemon)/task/\(daemon)/status") ?? "").split(separator: "\n")
    let blocked = lines.first { $0.hasPrefix("SigBlk:") }.flatMap {
      UInt64($0.split(separator: "\t").last ?? "", radix: 16)
    }
    // All signals but those that cannot be blocked and the two that the C library reserves.
    #expect(blocked == ~(1 << 8 | 1 << 18 | 1 << 31 | 1 << 32))
  }

  @Test(arguments: ["TERM", "INT"]) func terminationSignal_unmountsCleanly(signal: String) throws {
    let place = try unmounted()
    let script = """
      env --default-signal=INT '\(Displayfs.path)' mount -f -o language=en "$SOURCE" "$VIEW" & daemon=$!
      for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -e "$VIEW/notes" ] && break; sleep 0.1; done
      ls "$VIEW"; kill -\(signal) $daemon; wait $daemon; echo $?
      """
    let outcome = Shell.run(script, with: ["SOURCE": place.source, "VIEW": place.mountPoint])
    #expect(outcome.text == "notes\n0", "\(outcome.errorText)")
    #expect(!Displayfs.isMounted(place.mountPoint))
  }

  /// The daemon serves these files itself, and the kernel writes their pages back when it likes.
  @Test func terminationSignal_losesNothingThatIsMapped() throws {
    let view = try MountedView("passthrough=off") { root in try put("before", at: "\(root)/notes.txt") }
    let daemon = try #require(view.daemon)
    let file = try OpenFile(view.at("notes"), O_RDWR)
    let pages = try #require(mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0))
    defer { munmap(pages, 4096) }
    memcpy(pages, "mapped", 6)
    kill(daemon, SIGTERM)
    #expect(eventually(within: .work) { !isThere("/proc/\(daemon)") })
    #expect(text(view.real("notes.txt")) == "mapped")
  }

  @Test func help_succeedsAndInvalidArgumentsFail() {
    let help = Displayfs.run(["--help"])
    #expect(help.status == 0)
    for command in ["mount", "unmount", "ls", "explain", "realpath", "name"] {
      #expect(help.text.contains(command))
    }
    #expect(Displayfs.run([]).status == 1)
    #expect(Displayfs.run(["mount", "--nonsense"]).status == 1)
    #expect(Displayfs.run(["ls", "/", "/"]).status == 1)
    // As a script passes a variable that is not set: not the working directory.
    for command in ["realpath", "name", "explain", "ls"] {
      #expect(Displayfs.run([command, ""]).status == 1)
    }
  }
}

/// What is printed is not all where the disk is full.
@Suite(.mounting) struct StandardOutputTests {
  private static let commands: [[String]] = [
    ["ls", "."], ["ls", "-l", "--tree", "."], ["ls", "--json", "."], ["ls", "--backed-up", "."],
    ["explain", "notes.txt"],
    ["realpath", "notes.txt"], ["name", "--json", "notes.txt"], ["doctor"], ["check-config", "none.toml"],
    ["completions", "bash"], ["completions", "zsh"], ["--version"], ["--help"], ["ls", "--help"],
  ]

  private func place() throws -> TemporaryDirectory {
    let place = try TemporaryDirectory()
    for name in ["notes.txt", "none.toml"] { try put("", at: place.path(name)) }
    return place
  }

  @Test(arguments: commands) func fullDisk_isReported(command: [String]) throws {
    let place = try place()
    for output in [">/dev/full", ">&-"] {
      let outcome = Shell.run(
        "exec '\(Displayfs.path)' \(command.joined(separator: " ")) \(output)", in: place.root)
      #expect(outcome.status == 2, "\(output): \(outcome.complaint)")
      #expect(
        outcome.errorText.hasPrefix("displayfs: standard output cannot be written: "), "\(outcome.errorText)")
    }
  }

  @Test func fullDisk_ofMountedView_isReported() throws {
    let view = try MountedView { root in try put("x", at: "\(root)/notes.txt") }
    for command in ["list", "list --json", "status '\(view.mountPoint)'", "realpath '\(view.at("notes"))'"] {
      let outcome = Shell.run("exec '\(Displayfs.path)' \(command) >/dev/full")
      #expect(outcome.status == 2, "\(command): \(outcome.complaint)")
      #expect(
        outcome.errorText.hasPrefix("displayfs: standard output cannot be written: "), "\(outcome.errorText)")
    }
  }

  /// As ls(1).
  @Test(arguments: commands) func closedPipe_endsCommandSilently(command: [String]) throws {
    let place = try place()
    let program = """
      import os, subprocess, sys
      reader, writer = os.pipe()
      os.close(reader)
      run = subprocess.run(sys.argv[1:], stdout=writer, stderr=subprocess.PIPE)
      print(run.returncode, run.stderr)
      """
    try put(program, at: place.path("program.py"))
    let outcome = Shell.run(
      "exec python3 program.py '\(Displayfs.path)' \(command.joined(separator: " "))", in: place.root)
    #expect(outcome.text == "-13 b''", "\(outcome.complaint)")
  }
}

/// The program as mount(8) calls it.
@Suite(.mounting) struct MountHelperTests {
  private func helper(_ name: String = "mount.displayfs") throws -> (MountedView, String) {
    let view = try MountedView { root in try put("x", at: "\(root)/notes.txt") }
    view.unmount()
    let path = view.real("../\(name)")
    try #require(symlink(Displayfs.path, path) == 0)
    return (view, path)
  }

  @Test(arguments: ["mount.displayfs", "mount.fuse.displayfs"])
  func mountHelper_acceptsOptionsAfterOperands(name: String) throws {
    let (view, helper) = try helper(name)
    let outcome = Shell.run([
      helper, view.source, view.mountPoint, "-n", "-v", "-t", "displayfs", "-o",
      "rw,dev,suid,noauto,language=en,extensions=show",
    ])
    #expect(outcome.status == 0, "\(outcome.errorText)")
    #expect(view.listing() == ["notes.txt"])
  }

  @Test func mountHelper_withFakeOption_mountsNothing() throws {
    let (view, helper) = try helper()
    #expect(Shell.run([helper, view.source, view.mountPoint, "-f"]).status == 0)
    #expect(!Displayfs.isMounted(view.mountPoint))
    #expect(Shell.run([helper, view.source + "/absent", view.mountPoint, "-f"]).status != 0)
  }

  @Test func mountHelper_toleratesUnknownOptionsOnlyIfSloppy() throws {
    let (view, helper) = try helper()
    let strict = Shell.run([helper, view.source, view.mountPoint, "-o", "language=en,extentions=all"])
    #expect(strict.status == 1)
    #expect(strict.errorText.contains("did you mean extensions"))
    #expect(!Displayfs.isMounted(view.mountPoint))
    let sloppy = Shell.run([
      helper, view.source, view.mountPoint, "-s", "-o", "nonsense,language=en,extensions=show",
    ])
    #expect(sloppy.status == 0, "\(sloppy.errorText)")
    #expect(view.listing() == ["notes.txt"])
  }

  @Test func mountHelper_withReadOnlyOption_mountsReadOnly() throws {
    let (view, helper) = try helper()
    #expect(Shell.run([helper, "-r", view.source, view.mountPoint, "-o", "language=en"]).status == 0)
    #expect(failure { mkdir(view.at("new"), 0o755) } == .readOnlyFileSystem)
  }

  /// As `mount -o remount,ro` calls the helper; only root may.
  @Test(.enabled(if: geteuid() == 0)) func remount_switchesBetweenReadOnlyAndWritable() throws {
    let (view, helper) = try helper()
    let remount = { (options: String) in
      Shell.run([helper, view.source, view.mountPoint, "-o", "remount,language=en,\(options)"])
    }
    #expect(remount("ro").status == 32)
    try #require(Shell.run([helper, view.source, view.mountPoint, "-o", "language=en"]).status == 0)
    #expect(remount("ro").status == 0)
    #expect(failure { mkdir(view.at("new"), 0o755) } == .readOnlyFileSystem)
    // Changes beside the view are still seen.
    try put("y", at: view.real("other.txt"))
    #expect(eventually { view.listing() == ["notes", "other"] })
    // With a mount point alone, mount(8) repeats what the kernel says of the mount.
    let repeated = "rw,user_id=0,group_id=0,default_permissions,max_read=131072,remount,rw"
    #expect(Shell.run([helper, view.source, view.mountPoint, "-o", repeated]).status == 0)
    #expect(mkdir(view.at("new"), 0o755) == 0)
    let file = open(view.at("notes"), O_WRONLY)
    let busy = remount("ro")
    #expect(busy.status == 32 && busy.errorText.contains("open for writing"), "\(busy.errorText)")
    close(file)
  }

  /// By way of libfuse's helper, which takes a path for a type: /sbin is not ours to fill.
  @Test(.asRoot, .enabled(if: access("/sbin/mount.fuse3", X_OK) == 0, "There is no mount.fuse3 here."))
  func mountAndFstab_mountViews() throws {
    let (view, _) = try helper()
    let type = "fuse3"
    let options = "language=en,ro,nofail,noauto,_netdev,x-systemd.automount,x-gvfs-show,x-gvfs-name=My%20Mac"
    let table = view.real("../fstab")
    try put("\(Displayfs.path)#\(view.source) \(view.mountPoint) \(type) \(options) 0 0\n", at: table)
    for command in [
      "mount -T '\(table)' '\(view.mountPoint)'",
      "mount -t \(type) -o '\(options)' '\(Displayfs.path)#\(view.source)' '\(view.mountPoint)'",
    ] {
      let outcome = Shell.run(command)
      #expect(outcome.status == 0, "\(command): \(outcome.complaint)")
      #expect(view.listing() == ["notes"])
      #expect(failure { mkdir(view.at("new"), 0o755) } == .readOnlyFileSystem)
      #expect(Shell.run(["umount", view.mountPoint]).status == 0)
      #expect(view.listing() == [])
    }
  }

  @Test func mountHelper_withOneOperand_printsUsage() throws {
    let (view, helper) = try helper()
    let outcome = Shell.run([helper, view.source])
    #expect(outcome.status == 1)
    #expect(outcome.errorText.contains("usage"))
  }
}

extension MountedView {
  /// The daemon of this mount: the last process that was started for it, because the daemon of an earlier mount may not have
  /// ended yet.
  var daemon: pid_t? {
    let processes = names("/proc").compactMap { name -> (process: pid_t, parent: pid_t, start: Int)? in
      guard let number = pid_t(name.description), let arguments = contents("/proc/\(name)/cmdline") else {
        return nil
      }
      let words = arguments.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
      guard words.first == Displayfs.path || words.first == InstalledProgram.path, words.contains(mountPoint),
        // The fields after the program's name, from the third. (proc_pid_stat(5))
        let fields = text("/proc/\(name)/stat")?.split(separator: ")").last?.split(separator: " "),
        fields.count > 19, let parent = pid_t(fields[1]), let start = Int(fields[19])
      else { return nil }
      return (number, parent, start)
    }
    // A process that the daemon has just forked has the same command line.
    let daemons = processes.filter { one in !processes.contains { $0.process == one.parent } }
    return daemons.max { ($0.start, $0.process) < ($1.start, $1.process) }?.process
  }
}
