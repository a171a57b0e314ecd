import Testing

extension MountedView {
  /// What `displayfs status` reports under a name, such as `known files`.
  func reported(_ name: String) throws -> Substring {
    let lines = Displayfs.run(["status", mountPoint]).text.split(separator: "\n")
    let line = try #require(lines.first { $0.hasPrefix("\(name): ") })
    return line.dropFirst("\(name): ".count)
  }

  /// The same for a number.
  func reportedNumber(_ name: String) throws -> Int { try #require(Int(reported(name))) }

  /// The requests that `displayfs status` counts while a script runs in the view.
  func requests(of script: String) -> String {
    Displayfs.run(["status", mountPoint, "--", "sh", "-c", "cd '\(mountPoint)'; \(script)"]).text
      .split(separator: "\n").first { $0.hasPrefix("requests: ") }.map(String.init) ?? ""
  }
}
