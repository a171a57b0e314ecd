import CFuse
import SystemPackage

enum Version {
  static let number = "0.1.0"

  /// Prints the versions that an error report needs, in the format of sshfs: this program, libfuse, the protocol that it speaks
  /// with the kernel, and the program that mounts for users.
  static func print() {
    Output.line("displayfs version \(number)\nSwift \(swift)")
    let error = dfs_print_fuse_versions()
    if error != 0 { Output.end(with: Errno(rawValue: error)) }
  }

  /// The version of the compiler that built this program.
  private static var swift: String {
    #if compiler(>=6.4)
      "6.4 or newer"
    #elseif compiler(>=6.3)
      "6.3"
    #else
      "6.2"
    #endif
  }
}
