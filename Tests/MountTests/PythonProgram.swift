import Glibc

/// A program in Python: another process, which makes system calls that no shell tool makes.
struct PythonProgram {
  private let text: String

  /// - Parameters:
  ///   - user: the user that runs it, without supplementary groups except `groups`; the user of the tests when nil.
  ///   - directory: its working directory.
  init(_ text: String, as user: uid_t? = nil, groups: [gid_t] = [], in directory: String = "/") {
    // Ordinary users need not be able to start the interpreter, which may be in root's home.
    let identity = user.map { "os.setgroups(\(groups)); os.setgid(\($0)); os.setuid(\($0))" } ?? ""
    self.text = """
      # The interpreter also looks for modules in the directory that it works in, which would list a view.
      import errno, os, sys, threading, time
      \(identity)
      os.chdir('''\(directory)''')

      """ + text
  }

  func run(with variables: [String: String] = [:]) -> Outcome {
    Shell.run(["python3", "-c", text], with: variables)
  }

  /// Starts it and does not wait for it. What it prints is lost.
  func start() -> StartedProgram { Shell.start("exec python3 -c '\(text.replacing("'", with: #"'\''"#))'") }
}
