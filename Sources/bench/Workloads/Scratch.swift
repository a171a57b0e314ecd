import Glibc

/// A directory of the benchmark's own: backing trees, mount points, and the programs that are measured.
struct Scratch {
  let base: String
  /// The backing tree of the mounts that are measured.
  var source: String { base + "/source" }
  var mountPoint: String { base + "/mount" }
  /// Where the smallest server is mounted.
  var floor: String { base + "/floor" }
  /// Where tracefs is mounted.
  var tracing: String { base + "/tracing" }
  var home: String { base + "/home" }

  /// - Throws: when it cannot be made.
  init(in directory: String) throws {
    var template = Array("\(directory)/displayfs-bench-XXXXXX".utf8CString)
    guard let made = mkdtemp(&template) else { throw Problem.system(directory) }
    base = String(cString: made)
    // An ordinary user has to reach what is below.
    chmod(base, 0o755)
    for path in [floor, tracing] { try Files.mustSucceed(mkdir(path, 0o755), path) }
  }

  /// Makes the directories that belong to the user of a kind of mount, without what was in them.
  ///
  /// HOME is there too, so that no configuration of the user of the benchmark takes part.
  func makeDirectories(of account: Account) throws {
    for path in [source, mountPoint, home] {
      Program.run(["rm", "-rf", "--one-file-system", path])
      try account.makeDirectory(path)
    }
    setenv("HOME", home, 1)
    for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] { unsetenv(name) }
  }

  /// A shell script that unmounts everything below and removes it. It does so again while a program that the benchmark had
  /// started still mounts or writes.
  var removal: String {
    """
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
      for directory in '\(mountPoint)' '\(floor)'; do
        if findmnt -n "$directory"; then fusermount3 -uz "$directory"; fi
      done
      if findmnt -n '\(tracing)'; then umount '\(tracing)'; fi
      rm -rf --one-file-system '\(base)' && break
      sleep 1
    done
    """
  }
}
