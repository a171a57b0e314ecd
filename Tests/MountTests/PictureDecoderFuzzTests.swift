import Fuzzing
import Glibc
import PackagePictures
import SamplePictures
import SystemPackage
import Testing

/// Damaged pictures end in pixels or in an error. Each is a process of its own, so there are 50 times fewer than the inputs of
/// other parsers: `Mount/fuzz` has 20 000 of each kind decoded.
@Suite(.gdkPixbuf) struct PictureDecoderFuzzTests {
  private let decoder = PictureDecoder(FilePath("\(Displayfs.path)-picture"))

  private func fuzz(_ name: String, _ samples: [[UInt8]], largest: Int) throws {
    for sample in samples { _ = try decoder.decode(sample, size: 64) }
    try Fuzzing.fuzz(name, rounds: max(1, fuzzRounds(15_000) / 50)) { generator in
      let sample = samples.randomElement(using: &generator) ?? []
      let picture = damaged(sample, largest: largest, &generator)
      let started = ContinuousClock.now
      var isDecoded = true
      do throws(PictureDecoder.Failure) { _ = try decoder.decode(picture, size: 64) } catch {
        guard case .notDecoded = error else { throw error }
        isDecoded = false
      }
      let spent = ContinuousClock.now - started
      try demand(spent < .seconds(12), "it took \(spent)")
      return isDecoded
    }
  }

  @Test func decodedPictures_damaged_becomePixelsOrAnError() throws {
    let samples = [SamplePicture.png(40), SamplePicture.tiff(20, [10, 120, 230]), SamplePicture.jpeg]
    try fuzz("decoded pictures", samples, largest: 1 << 20)
  }

  @Test(.needing("opj_compress")) func decodedCodestreams_damaged_becomePixelsOrAnError() throws {
    let picture = JPEG2000.noise(40, 30)
    let samples = try [
      JPEG2000.encoded(picture), JPEG2000.encoded(picture, as: "j2k"),
      JPEG2000.encoded(picture, "-t 16,16 -r 20 -I -SOP -EPH"), JPEG2000.encoded(SamplePicture.png(64)),
    ]
    try fuzz("decoded JPEG 2000", samples, largest: 1 << 16)
  }
}
