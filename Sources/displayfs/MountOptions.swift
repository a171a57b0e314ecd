import Configuration
import DisplayNames
import View

/// What `-o` asks for, sorted by who it is for.
struct MountOptions {
  var view = ViewOptions()
  var tunnel = TunnelOptions()
  var importsPackages = true
  var coherence = Coherence()
  /// Whether the kernel shall read and write the backing files itself.
  var passthrough = true
  /// For libfuse and the kernel.
  var fuse: [String] = []
  var isReadOnly = false
  var allowsOthers = false
  /// Options of displayfs itself in the order given: they count more than any file's.
  var given: [(name: String, value: String)] = []

  /// Options of mount(8) and fstab(5) that concern others: accepted, so that the usual lines work.
  private static let ignored: Set<String> = [
    "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail", "_netdev",
    "nonempty", "use_ino",
    "relatime", "norelatime", "strictatime", "lazytime", "nolazytime", "mand", "nomand", "loud", "silent",
    "rw", "atime",
    "diratime", "nodiratime", "async", "suid_dumpable", "default_permissions",
  ]
  /// Passed on as they are.
  private static let passed: Set<String> = [
    "allow_other", "allow_root", "auto_unmount", "dev", "nodev", "suid", "nosuid", "exec", "noexec",
    "noatime",
    "sync", "dirsync", "ro",
  ]
  /// Passed on with their value.
  private static let passedWithValue: Set<String> = ["fsname", "subtype", "context", "fscontext"]
  static let own = [
    "extensions", "hidden", "packages", "profile", "finder-info", "appledouble", "domains", "desktop-names",
    "language",
    "disabled-rules", "tunnel",
    "tunnel-timeout",
    "import", "passthrough", "coherence", "timeout", "config",
  ]
  /// What can be typed for an option, for shells to complete: each choice, or the name where the values cannot be listed.
  static var completions: [String] {
    func choices<Value: RawRepresentable<String> & CaseIterable>(_ name: String, _: Value.Type) -> [String] {
      Value.allCases.map { "\(name)=\($0.rawValue)" }
    }
    return choices("extensions", ExtensionMode.self) + choices("hidden", HiddenMode.self)
      + choices("packages", PackageMode.self) + choices("profile", Profile.self)
      + choices("finder-info", FinderInfoMode.self)
      + choices("appledouble", AppleDoubleMode.self) + choices("domains", DomainMode.self)
      + choices("tunnel", TunnelMode.self) + choices("coherence", Coherence.Mode.self) + [
        "timeout=", "desktop-names=on", "desktop-names=off", "import=on", "import=off", "language=",
        "tunnel-timeout=", "disabled-rules=", "config=",
      ]
      + passed.sorted() + passedWithValue.sorted().map { "\($0)=" }
  }

  /// Adds the options of one `-o`, separated by commas; `\,` is a comma in a value.
  ///
  /// - Parameter sloppy: pass over what is no option, as mount(8) asks its helpers with `-s`.
  mutating func add(_ list: String, sloppy: Bool = false) throws(Failure) {
    for option in Self.split(list) where !option.isEmpty {
      do throws(Failure) { try addOne(option) } catch { if !sloppy { throw error } }
    }
  }

  private mutating func addOne(_ option: String) throws(Failure) {
    let parts = option.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    let name = parts[0]
    if name.hasPrefix("x-") || name.hasPrefix("X-") || name == "comment" || Self.ignored.contains(name) {
      return
    }
    if parts.count == 1, Self.passed.contains(name) {
      fuse.append(name)
      if name == "ro" { isReadOnly = true }
      if name == "allow_other" || name == "allow_root" { allowsOthers = true }
      return
    }
    if parts.count == 2 {
      if Self.passedWithValue.contains(name) {
        fuse.append("\(name)=\(Self.escape(parts[1]))")
        return
      }
      if Self.own.contains(name) { return try give(name, parts[1]) }
    } else if Self.own.contains(name) || Self.passedWithValue.contains(name) {
      throw Failure(.usage, "-o \(name): this option needs a value: \(name)=...")
    }
    let known = Self.own + Self.passed.sorted() + Self.passedWithValue.sorted() + Self.ignored.sorted()
    let nearest = Spelling.nearest(name, among: known)
    throw Failure(
      .usage,
      "-o \(option): no such option" + (nearest.map { "; did you mean \($0)?" } ?? "")
        + " All options are in displayfs(1).")
  }

  /// `,` and `\` as libfuse wants them inside a value.
  static func escape(_ value: String) -> String {
    value.reduce(into: "") { $0 += $1 == "," || $1 == "\\" ? "\\\($1)" : "\($1)" }
  }

  private static func split(_ list: String) -> [String] {
    var options = [""]
    var isEscaped = false
    for character in list {
      if isEscaped {
        options[options.count - 1].append(character)
        isEscaped = false
      } else if character == "\\" {
        isEscaped = true
      } else if character == "," {
        options.append("")
      } else {
        options[options.count - 1].append(character)
      }
    }
    return options
  }
}

/// How long and for whom a hidden extension is remembered when its name goes away.
struct TunnelOptions {
  var mode = TunnelMode.process
  var timeout: UInt64 = 15

  mutating func set(_ name: String, to value: String) throws(Failure) -> Bool {
    switch name {
    case "tunnel":
      guard let mode = TunnelMode(rawValue: value) else {
        throw Failure(.usage, "tunnel=\(value): not a value of this option; use one of: process, time, off")
      }
      self.mode = mode
    case "tunnel-timeout":
      guard let seconds = UInt64(value) else {
        throw Failure(.usage, "tunnel-timeout=\(value): not a number of seconds")
      }
      timeout = seconds
    default: return false
    }
    return true
  }
}

extension Coherence {
  mutating func set(_ name: String, to value: String) throws(Failure) -> Bool {
    switch name {
    case "coherence":
      guard let mode = Mode(rawValue: value) else {
        throw Failure(
          .usage, "coherence=\(value): not a value of this option; use one of: auto, watch, timeout")
      }
      self.mode = mode
    case "timeout":
      guard let seconds = UInt64(value), seconds <= 86_400 else {
        throw Failure(.usage, "timeout=\(value): not a number of seconds, of which a day has 86400")
      }
      timeout = seconds
    default: return false
    }
    return true
  }
}
