import Glibc
import MacMetadata
import PackagePictures
import SamplePictures
import SystemPackage
import Testing

/// `displayfs-picture`, in which pictures are decoded.
@Suite(.gdkPixbuf) struct PictureDecoderTests {
  private static let program = "\(Displayfs.path)-picture"
  private let decoder = PictureDecoder(FilePath(program))
  private let color: [UInt8] = [10, 120, 230, 255]

  private func pixels(_ picture: [UInt8], _ size: Int) throws -> String {
    let bitmap = try decoder.decode(picture, size: size)
    let colors = Set(stride(from: 0, to: bitmap.bytes.count, by: 4).map { Array(bitmap.bytes[$0..<$0 + 4]) })
    return "\(bitmap.width) \(bitmap.height) \(colors)"
  }

  @Test func pictures_ofEachFormat_becomePixels() throws {
    #expect(try pixels(SamplePicture.png(64, color), 64) == "64 64 [\(color)]")
    #expect(try pixels(SamplePicture.png(64, color), 100) == "64 64 [\(color)]")
    #expect(try pixels(SamplePicture.tiff(64, color), 32) == "32 32 [\(color)]")
    let jpeg = try decoder.decode(SamplePicture.jpeg, size: 128)
    #expect((jpeg.width, jpeg.height) == (8, 8))
  }

  @Test func alpha_isKept() throws {
    #expect(try pixels(SamplePicture.png(20, [9, 8, 7, 100]), 20) == "20 20 [[9, 8, 7, 100]]")
  }

  @Test func otherFormats_areNotDecoded() throws {
    for bytes in [
      [], Array("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"/>".utf8),
      Array("GIF89a".utf8) + Array(repeating: 0, count: 20), Array(SamplePicture.png(9).dropLast(12)),
    ] {
      #expect(throws: PictureDecoder.Failure.self) { try decoder.decode(bytes, size: 16) }
    }
  }

  @Test(.needing("opj_compress"), arguments: ["jp2", "j2k"])
  func jpeg2000_ofEitherForm_becomesPixels(ending: String) throws {
    func jpeg2000(_ side: Int, _ color: [UInt8], _ options: String = "") throws -> [UInt8] {
      try JPEG2000.encoded(SamplePicture.png(side, color), as: ending, options)
    }
    #expect(try pixels(jpeg2000(64, color), 64) == "64 64 [\(color)]")
    #expect(try pixels(jpeg2000(512, color), 100) == "100 100 [\(color)]")
    #expect(try pixels(jpeg2000(100, color, "-t 30,40"), 100) == "100 100 [\(color)]")
    #expect(try pixels(jpeg2000(20, [9, 8, 7, 100]), 20) == "20 20 [[9, 8, 7, 100]]")
    let noise = JPEG2000.noise(20, 30)
    let decoded = try decoder.decode(JPEG2000.encoded(noise, as: ending), size: 30)
    #expect(decoded == (try decoder.decode(noise, size: 30)))
  }

  /// A size that the codestream says to have is no reason to take memory for it.
  @Test(.needing("opj_compress")) func jpeg2000_cutOffOrTooLarge_isNotDecoded() throws {
    let whole = try JPEG2000.encoded(JPEG2000.noise(32, 32), as: "j2k")
    var large = whole
    // Of the picture, and of its only tile.
    for offset in [8, 12, 24, 28] { large.replaceSubrange(offset..<offset + 4, with: [0, 0, 0xEA, 0x60]) }
    // Colors of lightness and hue, for which the pixels would be wrong.
    var other = try JPEG2000.encoded(SamplePicture.png(32))
    let colors = try #require(other.firstRange(of: [0, 0, 0, 16, 0, 0])?.lowerBound)
    other[colors + 3] = 18
    for bytes in [Array(whole.prefix(whole.count / 2)), large, other] {
      let started = ContinuousClock.now
      #expect(throws: PictureDecoder.Failure.self) { try decoder.decode(bytes, size: 64) }
      #expect(ContinuousClock.now - started < .seconds(5))
    }
  }

  @Test(
    .needing("cc"),
    .enabled(
      if: !Sanitizer.isAnyUsed, "With a sanitizer there is no filter: it needs more calls than that allows."))
  func decoderTakenOver_canOpenConnectAndStartNothing() throws {
    let directory = try TemporaryDirectory()
    try put(TakenOverDecoder.source, at: directory.path("attack.c"))
    try put(SamplePicture.png(8), at: directory.path("picture"))
    let built = Shell.run(
      "cc -shared -fPIC -o attack.so attack.c && cc -DCONTROL -o control attack.c", in: directory.root)
    try #require(built.status == 0, "\(built.errorText)")
    func lines(_ command: String) -> [String] {
      Shell.run(command, in: directory.root).text.split(separator: "\n").map(String.init)
    }
    // Its output is a pipe, as it may not write to files either.
    let confined = lines("LD_PRELOAD=./attack.so '\(Self.program)' 16 <picture | cat")
    #expect(confined == TakenOverDecoder.attempts.map { "\($0) refused" })
    // A program that is not confined succeeds, and prints nothing after the last.
    #expect(lines("./control") == TakenOverDecoder.attempts.dropLast().map { "\($0) done" })
  }

  @Test(.enabled(if: !Sanitizer.isAnyUsed, "A sanitizer's address space cannot be limited."))
  func pictureThatUnfoldsToGigabytes_isNotDecoded() throws {
    let started = ContinuousClock.now
    #expect(throws: PictureDecoder.Failure.self) {
      try decoder.decode(SamplePicture.png(1, claiming: 30_000), size: 64)
    }
    #expect(ContinuousClock.now - started < .seconds(12))
  }
}
