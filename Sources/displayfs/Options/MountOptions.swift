import Configuration
import DisplayNames
import FuseServer
import View

/// The options of `-o`, sorted by the component that they are for.
struct MountOptions {
  var view = ViewOptions()
  var tunnel = TunnelOptions()
  var importsPackages = true
  var coherence = Coherence()
  /// Whether file handles of the view last, as an NFS server needs them.
  var isExported = false
  /// Whether the kernel reads and writes the backing files itself.
  var passthrough = true
  var locks = LockMode.auto
  /// The options for libfuse and the kernel, as `Arguments.text`.
  var fuse: [String] = []
  /// Whether `remount` was given: the options apply to a view that is mounted already.
  var isRemount = false
  var allowsOthers = false
  /// The options of displayfs itself in the order given. They have priority over those of any file.
  var given: [(name: String, value: String)] = []

  /// Options of mount(8) and fstab(5) that do not concern displayfs. They are accepted, so that the usual lines work.
  private static let ignored: Set<String> = [
    "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail", "_netdev",
    "nonempty", "use_ino",
    "relatime", "norelatime", "strictatime", "lazytime", "nolazytime", "mand", "nomand", "loud", "silent",
    "rw", "atime",
    "diratime", "nodiratime", "async", "suid_dumpable", "default_permissions",
  ]
  /// What the mount table says of FUSE mounts, with a value. `mount -o remount,ro MOUNTPOINT` repeats it.
  private static let ofMountTable: Set<String> = ["user_id", "group_id", "max_read", "blksize"]
  /// The one option of displayfs itself that has no value.
  private static let export = "export"
  /// Options that are passed on unchanged.
  private static let passed: Set<String> = [
    "allow_other", "allow_root", "auto_unmount", "dev", "nodev", "suid", "nosuid", "exec", "noexec",
    "noatime",
    "sync", "dirsync", "ro",
  ]
  /// Options that are passed on with their value.
  private static let passedWithValue: Set<String> = ["fsname", "subtype", "context", "fscontext"]
  /// The options of displayfs itself.
  static let own: [TextOption<MountOptions>] =
    ViewOptions.named.map { $0.lifted(to: \.view) } + [
      .choice("tunnel", \.tunnel.mode),
      .seconds("tunnel-timeout", \.tunnel.timeout),
      .toggle("import", \.importsPackages),
      .toggle("passthrough", \.passthrough),
      .choice("locks", \.locks),
      .choice("coherence", \.coherence.mode),
      .seconds("timeout", \.coherence.timeout, most: (86_400, is: "a day")),
      // Names a file with more options; handled separately.
      TextOption("config") { (_, _) throws(OptionError) in },
    ]

  /// The completions that a shell offers of what is typed of one option.
  static func completions(of typed: Substring) -> [String] {
    own.flatMap { $0.completions(of: typed) }
      + (passed.union([export]).sorted() + passedWithValue.sorted().map { "\($0)=" }).filter {
        $0.begins(with: typed)
      }
  }

  /// Adds the options of one `-o`, separated by commas; `\,` is a comma in a value.
  ///
  /// - Parameter sloppy: whether unknown options are ignored, as mount(8) requests from its helpers with `-s`.
  mutating func add(_ list: String, sloppy: Bool = false) throws(Failure) {
    let options = Self.split(list)
    if options.contains("remount") { isRemount = true }
    for option in options where !option.isEmpty {
      do throws(Failure) { try addOne(option) } catch { if !sloppy { throw error } }
    }
  }

  private mutating func addOne(_ option: String) throws(Failure) {
    let parts = option.parts(at: "=", maxSplits: 1, omittingEmptySubsequences: false)
    let name = parts[0]
    let isOwn = Self.own.contains { $0.name == name }
    if name.begins(with: "x-") || name.begins(with: "X-") || name == "comment" || Self.ignored.contains(name)
    {
      return
    }
    if option == "remount" { return }
    if option == Self.export {
      isExported = true
      return
    }
    if parts.count == 1, Self.passed.contains(name) {
      fuse.append(name)
      if name == "allow_other" || name == "allow_root" { allowsOthers = true }
      return
    }
    if parts.count == 2 {
      if isRemount, Self.ofMountTable.contains(name) { return }
      if Self.passedWithValue.contains(name) {
        fuse.append("\(name)=\(Self.escape(parts[1]))")
        return
      }
      if isOwn { return try accept(name, parts[1]) }
    } else if isOwn || Self.passedWithValue.contains(name) {
      throw Failure(.usage, "-o \(name): this option needs a value: \(name)=...")
    }
    let known =
      Self.own.map(\.name) + [Self.export] + Self.passed.sorted() + Self.passedWithValue.sorted()
      + Self.ignored.sorted()
    let nearest = Spelling.nearest(name, among: known)
    throw Failure(
      .usage,
      "-o \(option): no such option" + (nearest.map { "; did you mean \($0)?" } ?? "")
        + " All options are in displayfs(1).")
  }

  /// Escapes `,` and `\` in a value for libfuse. Works by scalars, because a comma with a combining accent still contains a
  /// comma.
  static func escape(_ value: String) -> String {
    var escaped = String.UnicodeScalarView()
    for scalar in value.unicodeScalars {
      if scalar == "," || scalar == "\\" { escaped.append("\\") }
      escaped.append(scalar)
    }
    return String(escaped)
  }

  private static func split(_ list: String) -> [String] {
    var options = [String.UnicodeScalarView()]
    var isEscaped = false
    for scalar in list.unicodeScalars {
      if isEscaped {
        options[options.count - 1].append(scalar)
        isEscaped = false
      } else if scalar == "\\" {
        isEscaped = true
      } else if scalar == "," {
        options.append(String.UnicodeScalarView())
      } else {
        options[options.count - 1].append(scalar)
      }
    }
    return options.map { String($0) }
  }
}

/// How long a hidden extension is remembered after its name goes away, and for which clients.
struct TunnelOptions {
  var mode = TunnelMode.process
  /// In seconds.
  var timeout: UInt64 = 15
}
