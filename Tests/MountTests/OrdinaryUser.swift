import Glibc
import Testing

/// Mounts as an ordinary user. Every Debian has these users; fusermount3 does not mount for a user without a name.
enum OrdinaryUser {
  static let (owner, other) = ("games", "daemon")

  static let canMount: Bool = {
    guard let view = try? MountedView() else { return false }
    view.unmount()
    return mount(view).status == 0
  }()

  static func run(_ user: String, _ command: [String], in surroundings: [String] = []) -> Outcome {
    Shell.run(surroundings + ["setpriv", "--reuid=\(user)", "--regid=\(user)", "--clear-groups"] + command)
  }

  /// Runs a script in the root of a view.
  static func shell(_ user: String, _ view: MountedView, _ script: String) -> Outcome {
    run(user, ["/bin/sh", "-c", "cd '\(view.mountPoint)' && { \(script)\n}"])
  }

  /// Mounts what is unmounted as the owner.
  ///
  /// - Parameters:
  ///   - surroundings: a command that root has run this.
  ///   - limit: a command that the owner has run this.
  static func mount(
    _ view: MountedView, _ options: String = "", with program: String = Displayfs.path,
    in surroundings: [String] = [],
    limit: [String] = []
  ) -> Outcome {
    _ = Shell.run("chown \(owner) '\(view.source)' '\(view.mountPoint)'")
    let mount = [
      program, "mount", "-o", "language=en" + (options.isEmpty ? "" : ",\(options)"), view.source,
      view.mountPoint,
    ]
    return run(owner, limit + mount, in: surroundings)
  }

  static let identifier: uid_t? = getpwnam(owner)?.pointee.pw_uid
}
