/// How large everything is.
struct Scale: Sendable {
  let megabytes: Int
  let files: Int
  /// Entries of the directories that are listed.
  let listings: [Int]
  let repositoryFiles: Int

  static let full = Scale(
    megabytes: 256, files: 4000, listings: [2_000, 100_000, 1_000_000], repositoryFiles: 20_000)
  static let quick = Scale(megabytes: 64, files: 1000, listings: [2_000, 100_000], repositoryFiles: 3_000)
}

/// Something that is measured.
struct Workload: Sendable {
  /// What a value says; but for memory and times, more is better.
  enum Unit: Sendable {
    case operations, megabytes, runs, bytes, seconds

    func text(_ value: Double) -> String {
      switch self {
      case .operations:
        value >= 10_000 ? "\(decimal(value / 1000, 0)) k/s" : "\(decimal(value / 1000, 1)) k/s"
      case .megabytes: "\(decimal(value, 0)) MiB/s"
      case .runs: "\(decimal(1 / value, 2)) s"
      case .bytes: "\(decimal(value, 0)) bytes"
      case .seconds: "\(decimal(value * 1000, 0)) ms"
      }
    }
  }

  let name: String
  let unit: Unit
  let needs: Preparation
  /// Whether Mount/README.md reports it: one of each kind, the slowest included.
  var isPublished: Bool {
    let isVariant = [", 4 jobs", "listing of 2 000", "create many"].contains { name.contains($0) }
    // Of programs that run twice the second run counts.
    return !isVariant && !["find", "grep -r", "git status"].contains(name)
  }
  /// Whether there is nothing to measure on the backing directory.
  var isAboutMounting = false
  /// Before it is mounted and after it is unmounted, on the backing tree.
  var before: @Sendable (_ source: String) -> Void = { _ in }
  var after: @Sendable (_ source: String) -> Void = { _ in }
  let run: @Sendable (Mounted) throws -> Measurement

  static func all(_ scale: Scale) -> [Workload] {
    data(scale) + names(scale) + listings(scale) + programs + mounting(scale)
  }

  private static func mounting(_ scale: Scale) -> [Workload] {
    let entries = scale.listings[1]
    return [
      Workload(name: "memory per cached entry", unit: .bytes, needs: .listing(entries), isAboutMounting: true)
      { mounted in
        let directory = "\(mounted.root)/\(Preparation.listing(entries).name)"
        // What a first request brings along is no entry's share.
        _ = try Listing.names(directory + "/..")
        guard let before = mounted.memory else { throw Problem("its daemon was not found") }
        for index in 0..<entries { try Files.status("\(directory)/\(Preparation.name(index))") }
        return Measurement(value: ((mounted.memory ?? before) - before) / Double(entries))
      },
      Workload(name: "time to mount", unit: .seconds, needs: .smallFiles, isAboutMounting: true) {
        Measurement(value: $0.secondsToMount)
      },
    ]
  }
}
