import Glibc

/// What the figures were taken on.
enum Machine {
  static var description: String {
    var name = utsname()
    uname(&name)
    let release = withUnsafeBytes(of: &name.release) {
      String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
    }
    let model = text("/proc/cpuinfo")?.split(separator: "\n").first { $0.hasPrefix("model name") }?
      .split(separator: ":").last.map { $0.drop { $0 == " " } }
    return "Linux \(release), \(sysconf(CInt(_SC_NPROCESSORS_ONLN))) × \(model ?? "an unnamed processor")"
  }
}
