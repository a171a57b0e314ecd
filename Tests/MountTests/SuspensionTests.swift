import Glibc
import Testing

/// Clients and daemons that are frozen or stopped in the middle of their work, and go on: all calls complete, and nothing is lost.
@Suite(.mounting, .needing("python3")) struct SuspensionTests {
  private func view() throws -> MountedView {
    try MountedView { root in
      for number in 0..<20 { try put("\(number)", at: "\(root)/Folder/file\(number).txt") }
      for worker in 0..<3 {
        for number in 0..<100 { try put("x", at: "\(root)/Folder/Letter\(worker).rtfd/\(number)") }
      }
    }
  }

  /// A program that works in a directory, with names of its own, until the file `end` is there.
  private func worker(
    _ number: Int, in view: MountedView, _ cgroup: Cgroup, until end: String
  ) -> PythonProgram {
    PythonProgram(
      """
      with open("\(cgroup.processes)", "w") as file: file.write("0")
      sys.stderr = open("\(end).error\(number)", "w")
      rounds = 0
      while not os.path.exists("\(end)"):
          text = str(rounds)
          for name in ["a\(number)", "b\(number)"]:
              with open(name + ".txt", "w") as file: file.write(text)
          os.rename("a\(number)", "c\(number)")
          assert "c\(number)" in os.listdir(".") and "a\(number)" not in os.listdir(".")
          assert open("c\(number).txt").read() == text
          with open("Letter\(number).rtfd/0", "a") as file: file.write("x")
          assert os.stat("Letter\(number)").st_size > 0 and len(open("Letter\(number)", "rb").read(2000)) == 2000
          os.unlink("c\(number)")
          assert not os.path.exists("c\(number)")
          rounds += 1
      assert rounds > 0
      """, in: view.at("Folder"))
  }

  private func run(
    in view: MountedView, _ cgroup: Cgroup, whileWorking body: () throws -> Void
  ) throws {
    let signals = try TemporaryDirectory()
    let workers = (0..<3).map { worker($0, in: view, cgroup, until: signals.path("end")).start() }
    try waitUntil { (0..<3).allSatisfy { isThere(view.real("Folder/b\($0).txt")) } }
    try body()
    try put("", at: signals.path("end"))
    for (number, process) in workers.enumerated() {
      #expect(process.wait() == 0, "\(text(signals.path("end.error\(number)")) ?? "")")
    }
    let left =
      (0..<20).map { "file\($0).txt" } + (0..<3).flatMap { ["b\($0).txt", "Letter\($0).rtfd"] }
    #expect(
      names(view.real("Folder")).filter { !$0.description.hasPrefix("new") } == Set(left.map { FileName($0) })
    )
  }

  /// The freezer interrupts what waits for a reply, and the kernel repeats the call or waits on.
  @Test(.cgroups) func frozenClients_delayNoOtherClientAndGoOn() throws {
    let view = try view()
    let cgroup = try Cgroup()
    try run(in: view, cgroup) {
      for round in 0..<20 {
        usleep(.random(in: 1000...40_000))
        try cgroup.freeze()
        #expect(eventually { cgroup.isFrozen })
        // In the directory in which they work.
        try put("new", at: view.real("Folder/new\(round).pdf"))
        #expect(eventually { text(view.at("Folder/new\(round)")) == "new" })
        let begun = ContinuousClock.now
        #expect(rename(view.at("Folder/new\(round)"), view.at("Folder/newer\(round)")) == 0)
        #expect(view.listing("Folder").contains(FileName("newer\(round)")))
        #expect((status(view.at("Folder/Letter0"))?.st_size ?? 0) > 0)
        #expect(ContinuousClock.now - begun < .atOnce)
        try cgroup.thaw()
      }
    }
  }

  @Test(.cgroups) func frozenClients_whenKilled_end() throws {
    let view = try view()
    let cgroup = try Cgroup()
    let place = try TemporaryDirectory()
    let workers = (0..<3).map { worker($0, in: view, cgroup, until: place.path("end")).start() }
    try waitUntil { (0..<3).allSatisfy { isThere(view.real("Folder/b\($0).txt")) } }
    try cgroup.freeze()
    #expect(eventually { cgroup.isFrozen })
    let clients = (text(cgroup.processes) ?? "").split(separator: "\n").compactMap { pid_t($0) }
    try #require(clients.count == 3)
    for client in clients { kill(client, SIGKILL) }
    #expect(eventually { text(cgroup.processes) == "" })
    for worker in workers { #expect(worker.wait() == 128 + SIGKILL) }
    #expect(view.shell("cd Folder && mkdir made && rmdir made && ls").status == 0)
  }

  /// A client that waits for a frozen daemon is not frozen itself, and the cgroup never as a whole.
  @Test(.cgroups) func frozenDaemonWithItsClients_goesOn() throws {
    let view = try view()
    let cgroup = try Cgroup()
    let daemon = try #require(view.daemon)
    try cgroup.add(daemon)
    try run(in: view, cgroup) {
      for round in 0..<20 {
        usleep(.random(in: 1000...40_000))
        try cgroup.freeze()
        usleep(20_000)
        try put("new", at: view.real("Folder/new\(round).pdf"))
        try cgroup.thaw()
        #expect(eventually { text(view.at("Folder/new\(round)")) == "new" })
      }
    }
    view.unmount()
  }

  /// What clients request of a stopped daemon, each for the first time.
  private static let requests = [
    "stat": "test -f Folder/file1", "read": "test \"$(cat Folder/file2)\" = 2",
    "create": "echo made >Folder/made.txt", "rename": "mv Folder/file3 Folder/moved",
    "remove": "rm Folder/file4", "list": "test $(ls Folder | wc -l) -ge 20", "mode": "chmod 600 Folder/file5",
    "package": "test $(head -c 4096 Folder/Letter0 | wc -c) = 4096",
  ]

  @Test func stoppedDaemon_whenContinued_servesAllThatWait() throws {
    let view = try view()
    let daemon = try #require(view.daemon)
    kill(daemon, SIGSTOP)
    defer { kill(daemon, SIGCONT) }
    let clients = Self.requests.map { name, script in
      (name, Shell.start("cd '\(view.mountPoint)' && \(script)"))
    }
    try put("new", at: view.real("Folder/behind.pdf"))
    #expect(rename(view.real("Folder/file6.txt"), view.real("Folder/elsewhere.txt")) == 0)
    usleep(500_000)
    for (name, client) in clients { #expect(!client.hasEnded, "\(name) does not wait") }
    kill(daemon, SIGCONT)
    for (name, client) in clients { #expect(client.wait() == 0, "\(name)") }
    #expect(text(view.real("Folder/made.txt")) == "made\n" && text(view.real("Folder/moved.txt")) == "3")
    #expect(
      !isThere(view.real("Folder/file4.txt")) && status(view.real("Folder/file5.txt"))?.permissions == 0o600)
    #expect(eventually { view.listing("Folder").isSuperset(of: ["behind", "elsewhere", "made", "moved"]) })
    #expect(!view.listing("Folder").contains("file6"))
  }

  @Test func clientOfStoppedDaemon_whenKilled_ends() throws {
    let view = try view()
    let place = try TemporaryDirectory()
    let daemon = try #require(view.daemon)
    kill(daemon, SIGSTOP)
    defer { kill(daemon, SIGCONT) }
    let client = Shell.start("echo $$ >\(place.path("id")); exec cat '\(view.at("Folder/file1"))'")
    try waitUntil { (text(place.path("id")) ?? "").hasSuffix("\n") }
    let id = try #require(pid_t(text(place.path("id"))!.dropLast()))
    try waitUntil { text("/proc/\(id)/wchan") == "request_wait_answer" }
    kill(id, SIGKILL)
    #expect(client.wait() == 128 + SIGKILL)
    kill(daemon, SIGCONT)
    #expect(text(view.at("Folder/file1")) == "1")
  }
}
