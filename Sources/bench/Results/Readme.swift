/// Mount/README.md, into which the tables are written, and the pictures beside it.
struct Readme {
  private let repository: String
  private static let (begin, end) = ("<!-- Mount/bench -->\n", "<!-- end of Mount/bench -->")

  init(in repository: String) { self.repository = repository }

  /// Replaces what stands between the two marks, and writes the pictures.
  func publish(_ comparisons: [Comparison]) throws {
    let path = repository + "/Mount/README.md"
    guard let readme = text(path), let from = readme.range(of: Self.begin),
      let to = readme.range(of: Self.end)
    else {
      throw Problem("\(path) has no lines \(Self.begin)and \(Self.end), between which the tables belong")
    }
    let sections = try comparisons.map { comparison in
      let picture = "speed-\(comparison.kind.rawValue).svg"
      try write(Picture(of: comparison).svg, to: "\(repository)/Mount/\(picture)")
      return comparison.report(of: comparison.workloads, picture: picture) + "\n"
    }
    try write(
      readme[..<from.upperBound] + sections.joined(separator: "\n") + readme[to.lowerBound...], to: path)
    note("Mount/README.md and Mount/speed-*.svg are written.")
  }
}

extension String {
  fileprivate func range(of text: String) -> Range<Index>? {
    indices.first { self[$0...].hasPrefix(text) }.map { $0..<index($0, offsetBy: text.count) }
  }
}
