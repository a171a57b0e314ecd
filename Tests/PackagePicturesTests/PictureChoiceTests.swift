import MacMetadata
import SamplePictures
import Testing

@testable import PackagePictures

@Suite struct PictureChoiceTests {
  @Test(arguments: [
    (128, [128, 256, 1024, 32, 16]), (16, [16, 32, 128, 256, 1024]), (129, [256, 1024, 128, 32, 16]),
    (2000, [1024, 256, 128, 32, 16]),
  ])
  func order_beginsWithTheSmallestThatIsLargeEnough(size: Int, expected: [Int]) {
    let sides = [1024, 16, 256, 32, 128]
    #expect(PictureChoice.order(sides, for: size).map { sides[$0] } == expected)
  }

  @Test func order_ofEqualPictures_isTheirs() {
    #expect(PictureChoice.order([64, 32, 64, 32], for: 32) == [1, 3, 0, 2])
    #expect(PictureChoice.order([64, 32, 64, 32], for: 100) == [0, 2, 1, 3])
  }

  @Test func bundleIcons_areFoundWithAndWithoutExtension() {
    #expect(
      BundleIcons.files(["AppIcon"], among: ["x.icns", "appicon.ICNS", "AppIcon"]) == [
        "appicon.ICNS", "AppIcon",
      ])
    #expect(BundleIcons.files(["a.icns"], among: ["a.icns", "a.icns.bak"]) == ["a.icns"])
    #expect(
      BundleIcons.files(["AppIcon60x60"], among: ["AppIcon60x60@2x.png", "AppIcon76x76.png"]) == [
        "AppIcon60x60@2x.png"
      ])
    #expect(
      BundleIcons.files(["../secret", "Cafe\u{301}"], among: ["../secret.icns", "Caf\u{e9}.icns"]) == [
        "Caf\u{e9}.icns"
      ])
  }

  @Test func previews_areFoundByTheirNames() {
    let entries = ["Thumbnail.jpg", "Preview.pdf", "preview.PNG", "thumbnail.txt", "Thumbnails.jpg"]
    #expect(
      PreviewPlaces.files(["thumbnail", "preview"], among: entries) == ["Thumbnail.jpg", "preview.PNG"])
  }

  @Test func pngEncoding_hasTheSizeAndTheChecksums() {
    let bytes = SamplePicture.png(3)
    #expect(PictureHeader(bytes) == PictureHeader(Array(bytes.prefix(24))))
    #expect(PictureHeader(bytes)?.width == 3)
    // The last chunk is the same in every PNG.
    #expect(bytes.suffix(12) == [0, 0, 0, 0, 0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82])
  }
}
