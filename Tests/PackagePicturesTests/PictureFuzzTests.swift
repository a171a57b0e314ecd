import BackingTree
import Fuzzing
import Glibc
import MacMetadata
import SamplePictures
import SystemPackage
import Testing

@testable import PackagePictures

/// Damaged packages have pictures or none. `Mount/fuzz` runs this with a million inputs.
@Suite struct PictureFuzzTests {
  @Test func packagePictures_ofDamagedStreams_areWithinTheLimits() throws {
    let icon = SamplePicture.icon([
      ("ic07", SamplePicture.png(8)), ("ic04", SamplePicture.argb(16, [1, 2, 3, 4])),
    ])
    let list = Array("{CFBundleIconFile = a;}".utf8)
    let sidecar = SamplePicture.appleDouble(SamplePicture.resourceFork(customIcon: icon))
    let tree = try PackageTree([
      ("Contents/Info.plist", list), ("Contents/Resources/a.icns", icon), ("Icon\r", []),
      ("._Icon\r", sidecar),
      ("QuickLook/Thumbnail.png", SamplePicture.png(8)),
    ])
    let stream = try tree.stream()
    var sample = [UInt8](repeating: 0, count: Int(try fileStatus(stream).st_size))
    try #require(try sample.withUnsafeMutableBytes { try readFully(stream, into: $0, at: 0) } == sample.count)
    let parts = [list, icon, sidecar].compactMap { sample.firstRange(of: $0) }
    try #require(parts.count == 3)
    try fuzz("pictures of packages") { generator in
      var bytes = sample
      if Bool.random(using: &generator) {
        bytes = damaged(sample, largest: 1 << 20, &generator)
      } else {
        // Only heads have a checksum: with another content the stream is a whole one.
        for part in parts {
          bytes[Int.random(in: part, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
        }
      }
      try #require(ftruncate(stream, off_t(bytes.count)) == 0)
      try bytes.withUnsafeBytes { try writeFully(stream, $0, at: 0) }
      let pictures = PackagePicture.pictures(of: .stream(stream), size: 16)
      try demand(pictures.count <= 4, "\(pictures.count) pictures")
      return !pictures.isEmpty
    }
  }
}
