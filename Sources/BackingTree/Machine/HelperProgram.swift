import Glibc
import SystemPackage

/// Programs that displayfs runs for tasks of its own.
public enum HelperProgram {
  /// Where Mount/install and packages put a program, else beside the running one, as a build does; nil where it is in neither place.
  public static func path(_ name: String) -> FilePath? {
    guard let running = try? FilePath("/proc/self/exe").resolvingSymlinks() else { return nil }
    let directory = running.removingLastComponent()
    return [
      directory.removingLastComponent().appending("libexec/displayfs/\(name)"), directory.appending(name),
    ]
    .first { $0.withPlatformString { access($0, X_OK) } == 0 }
  }
}
