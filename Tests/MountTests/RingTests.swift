import BackingTree
import Glibc
import Testing

/// Requests that come by io_uring, for which the kernel must be told to offer it, a moment at least while a view is mounted.
@Suite(.mounting, .asRoot, .ring, .serialized) struct RingTests {
  private static let modes = ["", "passthrough=off", "profile=none"]

  /// A view of `notes.txt` and whatever else is built.
  private func view(_ options: String = "", build: (String) throws -> Void = { _ in }) throws -> MountedView {
    try Ring.whileOffered {
      try MountedView(options) { root in
        try put("0123456789", at: "\(root)/notes.txt")
        try build(root)
      }
    }
  }

  private func way(of view: MountedView) -> String? {
    let lines = Displayfs.run(["status", view.mountPoint]).text.split(separator: "\n")
    return lines.first { $0.hasPrefix("requests come: ") }.map(String.init)
  }

  @Test func statusTellsHowRequestsCome() throws {
    let view = try view()
    #expect(way(of: view) == "requests come: by io_uring")
    #expect(text(view.at("notes")) == "0123456789")
  }

  /// Requests and answers of every size that there is.
  @Test(arguments: modes) func whatIsWrittenIsThere(options: String) throws {
    let view = try view(options)
    let outcome = view.shell(
      """
      set -e
      head -c 5000001 /dev/urandom > "$SOURCE/../expected"
      for size in 1021 4096 131072 262144 1048576 4194304; do
        dd if="$SOURCE/../expected" of=new.bin bs=$size 2>&1 iflag=fullblock
        cmp new.bin "$SOURCE/../expected"
        cmp "$SOURCE/new.bin" "$SOURCE/../expected"
        dd if=new.bin bs=$size of="$SOURCE/../read" 2>&1
        cmp "$SOURCE/../read" "$SOURCE/../expected"
      done
      mkdir many && cd many
      seq -f 'a name that is neither long nor short %g.bin' 5000 | xargs -d '\\n' touch
      [ "$(ls | wc -l)" = 5000 ]
      name=$(printf '%0251d.bin' 0)
      echo long > "$name" && [ "$(cat "$SOURCE/many/$name")" = long ]
      ln -s "$(printf '%04000d' 0)" far && [ "$(readlink far | wc -c)" = 4001 ]
      mv "$name" ../moved.bin && [ "$(cat ../moved.bin)" = long ]
      cd .. && rm -r many && [ ! -e "$SOURCE/many" ]
      """)
    #expect(outcome.status == 0, "\(outcome.text)\(outcome.errorText)")
    let value = [UInt8](repeating: 7, count: 3000)
    #expect(setAttribute("user.large", to: value, of: view.at("moved.bin")) == nil)
    let isKept = attributeBytes("user.large", of: view.at("moved.bin")) == value
    #expect(isKept)
  }

  @Test func everyOperationDoesWhatTheContractSays() throws {
    let view = try Ring.whileOffered { try MountedView() }
    let run = ModelRun(view, seed: 3, tunnelling: true)
    do {
      for _ in 0..<1000 { try run.step() }
      try run.compareTrees()
    } catch let deviation as ModelRun.Deviation {
      Issue.record("\(deviation.text)\n\(run.recent.joined(separator: "\n"))")
    }
  }

  /// On one processor, whose requests come in one queue: more wait than one thread could answer.
  @Test func whoWaitsHoldsNobodyUp() throws {
    let lower = try MountedView()
    let view = try view { root in
      makeDirectory("\(root)/lower")
      try #require(Shell.run("mount --bind '\(lower.mountPoint)' '\(root)/lower'").status == 0)
    }
    for name in ["lower", "notes"] { #expect(isThere(view.at(name))) }
    let stopped = try #require(lower.daemon)
    kill(stopped, SIGSTOP)
    let waiting = (1...40).map { Shell.start("exec taskset -c 0 stat '\(view.at("lower/unknown \($0)"))'") }
    let daemon = try #require(view.daemon)
    // More than there were places in a queue once.
    try waitUntil { threadsWaiting(in: daemon) >= 40 }
    for name in ["notes.txt", "other", "third"] {
      #expect(Shell.run("timeout 20 taskset -c 0 stat '\(view.at(name))'").status != 124)
    }
    kill(stopped, SIGCONT)
    for process in waiting { Shell.wait(for: process) }
  }

  /// Without /sys, glibc counts the processors that /proc/stat has, which may be fewer than the kernel has queues: the kernel
  /// would keep every request back.
  @Test func mountWithoutSys_whereFewerProcessorsAreSeen_answersByTheDevice() throws {
    let view = try view()
    view.unmount()
    let outcome = try Ring.whileOffered {
      Shell.run(
        """
        grep -v '^cpu[1-9]' /proc/stat >'\(view.source).stat'
        exec unshare -m sh -c '
          mount -t tmpfs none /sys && mount --bind "$1.stat" /proc/stat && "$0" mount "$1" "$2" || exit
          timeout -k 1 20 stat "$2/notes" && "$0" status "$2" | grep "requests come"; umount -l "$2"' \
          '\(Displayfs.path)' '\(view.source)' '\(view.mountPoint)'
        """)
    }
    #expect(outcome.text.hasSuffix("requests come: by /dev/fuse"), "\(outcome.complaint)")
    unlink("\(view.source).stat")
  }

  @Test func everyProcessorHasItsTurn() throws {
    let view = try view()
    let outcome = view.shell(
      """
      for processor in $(seq 0 $(($(nproc) - 1))); do
        for job in 1 2 3; do
          (for file in $(seq 100); do
            taskset -c $processor sh -c "echo $file > $processor.$job.$file.bin" || exit
          done) &
        done
      done
      wait
      """)
    #expect(outcome.status == 0, "\(outcome.errorText)")
    let processors = sysconf(CInt(_SC_NPROCESSORS_ONLN))
    #expect(view.listing().count == 300 * processors + 1)
    for processor in 0..<processors {
      for job in 1...3 { #expect(text(view.real("\(processor).\(job).100.bin")) == "100\n") }
    }
  }

  /// The kernel keeps every request back until it is told that all places are there, or that there will be none.
  @Test func howeverFewDescriptorsThereAreTheMountAnswers() throws {
    let view = try view()
    view.unmount()
    var ways: Set<String?> = []
    try Ring.whileOffered {
      for limit in 10...80 {
        let outcome = Shell.run(
          "timeout -k 1 20 prlimit --nofile=\(limit):\(limit) '\(Displayfs.path)' mount '\(view.source)' '\(view.mountPoint)'"
        )
        guard outcome.status == 0 else {
          #expect(outcome.status == 32, "\(limit) descriptors: \(outcome.status)")
          continue
        }
        let looking = Shell.run("timeout -k 1 20 stat '\(view.at("notes"))'")
        #expect(looking.status == 0, "\(limit) descriptors: \(looking.errorText)")
        ways.insert(way(of: view))
        view.unmount()
      }
    }
    #expect(ways == ["requests come: by /dev/fuse", "requests come: by io_uring"])
  }

  @Test(arguments: [SIGTERM, SIGKILL]) func aDaemonThatEndsLeavesNothingBehind(signal: CInt) throws {
    let view = try view()
    let daemon = try #require(view.daemon)
    #expect(isThere(view.at("notes")))
    kill(daemon, signal)
    #expect(eventually(within: .work) { kill(daemon, 0) != 0 && failure { access(view.at("notes"), F_OK) } != nil })
    view.unmount()
    try view.mount()
    #expect(text(view.at("notes")) == "0123456789")
  }
}
