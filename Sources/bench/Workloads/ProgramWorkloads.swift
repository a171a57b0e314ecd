extension Workload {
  /// Finds nothing, which is not the same as failing.
  private static let grep = "grep -r 'no such words' .; test $? = 1"

  /// Programs in a large source tree, the first time and again.
  static let programs: [Workload] = [
    program("find", "find . >/dev/null"),
    program("find, second run", "find . >/dev/null", isRepeated: true),
    program("grep -r", grep),
    program("grep -r, second run", grep, isRepeated: true),
    program("git status", "git status --porcelain"),
    program("git status, second run", "git status --porcelain", isRepeated: true),
    program(
      "git checkout", "git checkout -q two && git checkout -q one",
      after: "git checkout -qf one"),
    program("tar", "tar -cf - . | cat >/dev/null"),
    program("make -j4", "make -s -j4", after: "git clean -fdXq"),
  ]

  private static func program(
    _ name: String, _ script: String, isRepeated: Bool = false, after: String? = nil
  ) -> Workload {
    Workload(
      name: name, unit: .runs, needs: .repository,
      // git compares the content of files that are as new as its index, and writes the index anew: once, for the contestant
      // that is the first after a checkout. So it is done beneath.
      before: { try? Program.shell("git status", in: "\($0)/\(Preparation.repository.name)") },
      after: { source in
        if let after { try? Program.shell(after, in: "\(source)/\(Preparation.repository.name)") }
      }
    ) { mounted in
      let directory = "\(mounted.root)/\(Preparation.repository.name)"
      if isRepeated { try Program.shell(script, in: directory) }
      return try mounted.measure(1) { try Program.shell(script, in: directory) }
    }
  }
}
