import DisplayNames
import Fuzzing
import Testing

@testable import Configuration

/// Configuration files of any bytes are read or refused.
@Suite struct ConfigurationFuzzTests {
  static let sample = Array(
    """
    language = ["de", "en"] # ü
    [[rule]]
    match = '*.tmp'
    name = { de = "Entw\\u00fcrfe", en = \"\"\"x\\
      y\"\"\" }
    [profiles.a.b]
    n = [0x1f, -1_0.5e3, 1979-05-27 07:32:00, [true, {}]]
    """.utf8)
  static let rules = Array(
    """
    [[rule]]
    match = ["node_modules/", "*.tmp"]
    hidden = true
    [[rule]]
    match = "/Work/Drafts"
    name = { de = "Entwürfe" }
    """.utf8)
  static let alphabet = Array("[]{}\"'\\=.,#\n\r\t -_0x1eTZ:u\u{0}ü".utf8)

  /// Messages say where in the file.
  @Test func configurations_damaged_areReadOrRefusedWithPosition() throws {
    let settings = KnownSettings(names: ["language"]) { _, _ in }
    try fuzz("configurations") { generator in
      let document =
        switch Int.random(in: 0..<3, using: &generator) {
        case 0:
          (0..<Int.random(in: 0..<60, using: &generator)).compactMap { _ in
            Self.alphabet.randomElement(using: &generator)
          }
        case 1: damaged(Self.rules, largest: Configuration.largestFile, &generator)
        default: damaged(Self.sample, largest: Configuration.largestFile, &generator)
        }
      let outcome = Configuration.read(document, file: "fuzz", settings: settings)
      let lines = document.count { $0 == 0x0a } + 1
      for problem in outcome.problems {
        let (line, column) = (problem.position?.line ?? 0, problem.position?.column ?? 0)
        try demand((1...lines).contains(line) && column >= 1, "\(problem) is nowhere in the file")
      }
      return outcome.problems.isEmpty
    }
  }
}
