import Testing

extension MountedView {
  /// What `displayfs status` reports under a name, such as `known files`.
  ///
  /// - Parameter script: runs in the view; the report is of what happens meanwhile.
  func reported(_ name: String, during script: String? = nil) throws -> Substring {
    let command = script.map { ["--", "sh", "-c", "cd '\(mountPoint)'; \($0)"] } ?? []
    let lines = Displayfs.run(["status", mountPoint] + command).text.split(separator: "\n")
    let line = try #require(lines.first { $0.hasPrefix("\(name): ") })
    return line.dropFirst("\(name): ".count)
  }

  /// The same for a number.
  func reportedNumber(_ name: String) throws -> Int { try #require(Int(reported(name))) }
}
