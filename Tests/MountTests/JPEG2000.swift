import Fuzzing
import Glibc
import MacMetadata
import PackagePictures
import Testing

/// JPEG 2000 for tests, as OpenJPEG's own program makes it.
enum JPEG2000 {
  /// In three resolutions: with more, a picture or tile of less than 32 pixels would be refused.
  ///
  /// - Parameters:
  ///   - ending: `jp2`, or `j2k` for a codestream alone.
  ///   - options: of opj_compress(1).
  static func encoded(_ png: [UInt8], as ending: String = "jp2", _ options: String = "") throws -> [UInt8] {
    let directory = try TemporaryDirectory()
    try put(png, at: directory.path("in.png"))
    let outcome = Shell.run("opj_compress -n 3 -i in.png -o out.\(ending) \(options)", in: directory.root)
    return try #require(contents(directory.path("out.\(ending)")), "\(outcome.text)\(outcome.errorText)")
  }

  /// A PNG of random pixels, of which a codestream keeps more than of one color.
  static func noise(_ width: Int, _ height: Int) -> [UInt8] {
    var generator = SeededGenerator(seed: 1)
    let bytes = (0..<4 * width * height).map { _ in UInt8.random(in: 0...255, using: &generator) }
    return PixelBitmap(width: width, height: height, bytes: bytes).flatMap { PNG.encoded($0) } ?? []
  }
}
