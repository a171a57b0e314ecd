import BackingTree
import Configuration
import DisplayNames
import Glibc
import SystemPackage

/// The configuration files of the system and of the user (displayfs.conf(5)).
enum ConfigurationFiles {
  /// The value of `config` with which no file is read.
  static let none = "none"

  /// The files that exist, the least important first.
  ///
  /// A mount by root belongs to the system, so no file in root's home directory is read.
  static var standard: [String] {
    var paths = ["/etc/displayfs/config.toml"] + parts(of: "/etc/displayfs/conf.d")
    if geteuid() != 0 {
      func variable(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.begins(with: "/") ? $0 : nil }
      }
      if let base = variable("XDG_CONFIG_HOME") ?? variable("HOME").map({ "\($0)/.config" }) {
        paths.append("\(base)/displayfs/config.toml")
      }
    }
    return paths.filter { access($0, F_OK) == 0 }
  }

  /// Reads the standard files and the named file.
  ///
  /// - Throws: all problems of all files.
  static func read(also named: String?) throws(Failure) -> Configuration {
    if named == none { return Configuration() }
    let (configuration, problems) = check(standard + (named.map { [$0] } ?? []))
    guard problems.isEmpty else {
      throw Failure(
        .usage,
        problems.joined(separator: "\n")
          + "\ncorrect the configuration, or mount with -o config=none to ignore it")
    }
    return configuration
  }

  /// Reads files, and returns their combined configuration and the messages of all problems, those of reading included.
  static func check(_ paths: [String]) -> (Configuration, problems: [String]) {
    var configuration = Configuration()
    var problems: [String] = []
    for path in paths {
      do throws(Failure) {
        let file = Configuration.read(try content(path), file: path, settings: MountOptions.settings)
        configuration.add(file.configuration)
        problems += file.problems.map(\.description)
      } catch { problems.append(error.description) }
    }
    if problems.isEmpty { problems = configuration.problemsOfProfiles().map(\.description) }
    return (configuration, problems)
  }

  /// Converts a path so that it does not depend on the working directory.
  static func absolute(_ path: String) -> String {
    guard path != none, !path.begins(with: "/"), let resolved = realpath(path, nil) else { return path }
    defer { free(resolved) }
    return String(cString: resolved)
  }

  private static func content(_ path: String) throws(Failure) -> [UInt8] {
    do throws(Errno) {
      let file = Descriptor(
        adopting: try systemCall { open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) })
      guard FileType(mode: try fileStatus(file.rawValue).st_mode) == .regular else {
        throw .invalidArgument
      }
      return try [UInt8](unsafeUninitializedCapacity: Configuration.largestFile + 1) {
        (buffer, count) throws(Errno) in
        count = try readFully(file.rawValue, into: UnsafeMutableRawBufferPointer(buffer), at: 0)
      }
    } catch {
      throw Failure(.usage, "\(path): cannot read this configuration file as a regular file: \(error)")
    }
  }

  /// `*.toml` in a directory, sorted by name.
  private static func parts(of directory: String) -> [String] {
    guard let opened = try? systemCall({ open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }) else {
      return []
    }
    let descriptor = Descriptor(adopting: opened)
    var names: [String] = []
    try? forEachEntry(of: descriptor.rawValue) { entry in
      if let name = String(validating: entry.name, as: UTF8.self), name.ends(with: ".toml"),
        !name.begins(with: ".")
      {
        names.append(name)
      }
    }
    return names.sorted().map { "\(directory)/\($0)" }
  }
}
