import Glibc

/// A shell script that runs when the benchmark ends, however it ends: a shell outside its session waits for the end of a pipe
/// that only the benchmark holds. So an interrupt, and even SIGKILL, leaves neither mounts nor settings of the kernel behind.
final class CleanUp {
  private let pipeEnd: CInt
  private let shell: pid_t

  /// - Parameter script: what it does must not depend on how far the benchmark came.
  init(_ script: String) throws {
    let pipe = try Pipe()
    defer { close(pipe.output) }
    guard
      let shell = Program.start(["setsid", "/bin/sh", "-c", "cat >/dev/null\n\(script)"], input: pipe.output)
    else {
      throw Problem("setsid could not be started")
    }
    (pipeEnd, self.shell) = (pipe.input, shell)
  }

  /// Runs the script and waits for its end.
  func run() {
    close(pipeEnd)
    _ = Program.wait(for: shell)
  }
}
