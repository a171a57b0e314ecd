import Glibc
import SystemPackage
import Testing

/// Many programs change one tree at once, through the mount and beside it.
@Suite(.mounting) struct ConcurrencyTests {
  /// A process that inspects another process during its execve(2) waits for that call, which may be waiting for the daemon.
  @Test func execve_closingFilesOfMount_doesNotDeadlock() throws {
    let view = try MountedView()
    let outcome = view.shell(
      """
      timeout -s KILL 120 python3 -c '
      import os
      for round in range(1000):
          process = os.fork()
          if process == 0:
              for number in range(round % 40): os.path.exists("nothing%d" % number)
              os.open("file%d" % (round % 3), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
              os.execv("/bin/true", ["true"])
          os.waitpid(process, 0)
      '
      """)
    #expect(outcome.status == 0 && outcome.text == "", "\(outcome.complaint)")
  }

  /// A worker that serves a lone client runs under an idle policy. On a busy machine that policy would leave it no CPU time.
  @Test(arguments: [0, 4]) func workers_afterServingLoneClient_leaveIdlePolicy(busy: Int) throws {
    let view = try MountedView("profile=none") { root in try put("", at: "\(root)/file") }
    let daemon = try #require(view.daemon)
    // AT_STATX_FORCE_SYNC: the kernel's cached attributes do not suffice.
    let outcome = PythonProgram(
      """
      import ctypes, signal
      ask, out = ctypes.CDLL(None).statx, ctypes.create_string_buffer(256)
      others = []
      for other in range(\(busy)):
          others.append(os.fork())
          while not others[-1]: pass
      try:
          for round in range(20):
              start = time.monotonic()
              for number in range(1000): assert ask(-100, b"file", 0x2000, 0x7ff, out) == 0
              assert time.monotonic() - start < 10, "a thousand questions took ten seconds"
              time.sleep(0.001 * round)
      finally:
          for other in others: os.kill(other, signal.SIGKILL)
      """, in: view.mountPoint
    ).run()
    #expect(outcome.status == 0, "\(outcome.complaint)")
    let isAnyIdle = {
      names("/proc/\(daemon)/task").contains {
        sched_getscheduler(pid_t($0.description) ?? 0) == 5 /* SCHED_IDLE */
      }
    }
    #expect(eventually { !isAnyIdle() })
  }

  /// A slow file system, such as a remote one, gets the requests of all clients at once.
  @Test(.asRoot) func lookups_inHungFileSystem_waitConcurrently() throws {
    let lower = try MountedView()
    let view = try MountedView { root in
      makeDirectory("\(root)/lower")
      try #require(Shell.run("mount --bind '\(lower.mountPoint)' '\(root)/lower'").status == 0)
    }
    #expect(isThere(view.at("lower")))
    let (daemon, stopped) = (try #require(view.daemon), try #require(lower.daemon))
    kill(stopped, SIGSTOP)
    let waiting = (1...4).map { Shell.start("exec stat '\(view.at("lower/unknown \($0)"))'") }
    #expect(eventually(within: .work) { threadsWaiting(in: daemon) == 4 })
    kill(stopped, SIGCONT)
    for process in waiting { process.wait() }
  }

  @Test(arguments: ["extensions=hide", "extensions=all", "profile=none"])
  func view_afterConcurrentChanges_matchesBackingTree(options: String) throws {
    let view = try MountedView("\(options),language=en") { root in
      for folder in ["one", "two"] { makeDirectory("\(root)/\(folder)") }
    }
    let worker = """
      cd '%'; i=0
      while [ $i -lt 60 ]; do
        n=$((i % 7)); echo $i >one/f$n.txt; echo $i >two/g$n; mv one/f$n.txt two/h$n.pdf; mv two/g$n one/f$n
        mkdir one/d$n; echo x >one/d$n/x.txt; mv one/d$n two/e$n; ls one two; rm -rf two/e$n; rm -f one/f$((n + 1)) two/h$n
        i=$((i + 1))
      done >/dev/null 2>&1
      """
    let workers = [view.mountPoint, view.source, view.mountPoint].map {
      Shell.start(worker.replacingPercent(with: $0))
    }
    for worker in workers { worker.wait() }
    for folder in ["", "one", "two"] {
      let asked = Displayfs.run([
        "ls", "-o", "\(options),language=en", "--source", view.source, view.real(folder),
      ])
      #expect(asked.status == 0, "\(asked.errorText)")
      let listed = view.listing(folder)
      #expect(listed.difference(from: asked.names) == nil, "\(folder)")
      for name in listed { #expect(isThere(view.at("\(folder)/\(name)")), "\(folder)/\(name)") }
      for name in view.realListing(folder) {
        #expect(isThere(view.at("\(folder)/\(name)")), "\(folder)/\(name)")
      }
    }
    let everything = Shell.run("find . -type f | wc -l", in: view.mountPoint).text
    #expect(everything == Shell.run("find . -type f | wc -l", in: view.source).text)
  }

  @Test func concurrentPrograms_inOwnDirectories_doNotInterfere() throws {
    let view = try MountedView()
    let worker = """
      cd '\(view.mountPoint)'; mkdir %; cd %; i=0
      while [ $i -lt 40 ]; do
        echo $i >f.txt && [ "$(cat f)" = $i ] && mv f g && [ "$(cat g.txt)" = $i ] && mkdir d && mv g d/g && [ "$(cat d/g)" = $i ] \
          && [ "$(ls)" = d ] && rm d/g && rmdir d && [ -z "$(ls)" ] || exit 1
        i=$((i + 1))
      done
      """
    let workers = (0..<4).map { Shell.start(worker.replacingPercent(with: "worker\($0)")) }
    let statuses = workers.map { $0.wait() }
    #expect(statuses == [0, 0, 0, 0])
  }
}

extension String {
  fileprivate func replacingPercent(with text: String) -> String {
    split(separator: "%", omittingEmptySubsequences: false).joined(separator: text)
  }
}
