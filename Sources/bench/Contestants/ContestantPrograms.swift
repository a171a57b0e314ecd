import Glibc

/// The programs of contestants that are not found along PATH.
struct ContestantPrograms {
  let displayfs: String
  /// A copy of displayfs beside a displayfs-passthrough that has the right to register files with the kernel; nil where there
  /// is none.
  private(set) var displayfsWithHelper: String?
  /// A copy of displayfs beside nothing.
  let displayfsAlone: String
  let passthroughHp: String?

  /// Copies them to where an ordinary user reaches them and the daemon finds its helper, which is beside itself. Only root can
  /// give the helper its right.
  ///
  /// - Parameter repository: where the script is that gives the helper its right.
  init(
    displayfs: String, helper: String?, passthroughHp: String?, in work: Scratch, _ repository: String
  ) {
    self.displayfs = displayfs
    self.passthroughHp = passthroughHp
    displayfsAlone = "\(work.base)/displayfs-alone/displayfs"
    Self.copy(displayfs, to: displayfsAlone)
    guard Account.isRoot, let helper else { return }
    let directory = "\(work.base)/displayfs-with-helper"
    Self.copy(displayfs, to: "\(directory)/displayfs")
    Self.copy(helper, to: "\(directory)/displayfs-passthrough")
    try? Program.shell(
      ". Mount/steps.sh; . Mount/files.sh; let_register \(directory)/displayfs-passthrough", in: repository)
    displayfsWithHelper = "\(directory)/displayfs"
  }

  private static func copy(_ program: String, to path: String) {
    Program.run(["install", "-D", "-m", "755", program, path])
  }
}
