import BackingTree
import CLinux
import Glibc
import MacMetadata
import PackageStream
import SamplePictures
import SystemPackage
import Testing

@testable import PackagePictures

/// The pictures of packages, found in the directory and in the stream of it alike.
@Suite struct PackagePictureTests {
  private typealias Files = [(path: String, content: [UInt8])]

  /// The sides of the pictures, found in both ways.
  private func sides(
    _ files: Files, size: Int, attributes: [(path: String, name: String, value: [UInt8])] = []
  ) throws
    -> [Int]
  {
    let tree = try PackageTree(files)
    for attribute in attributes {
      let set = attribute.value.withUnsafeBytes {
        setxattr("\(tree.path)/\(attribute.path)", attribute.name, $0.baseAddress, $0.count, 0)
      }
      try #require(set == 0)
    }
    let found = PackagePicture.pictures(of: .directory(FilePath(tree.path)), size: size)
    #expect(PackagePicture.pictures(of: .stream(try tree.stream()), size: size) == found)
    return found.compactMap { PictureHeader($0)?.side }
  }

  private static let application: Files = [
    ("Contents/Info.plist", info(["CFBundleIconFile": "AppIcon"])), ("Contents/MacOS/App", [1]),
    ("Contents/Resources/AppIcon.icns", icon(16, 128, 64)), ("Contents/Resources/Document.icns", icon(512)),
  ]

  @Test func application_hasTheIconThatItDeclares() throws {
    #expect(try sides(Self.application, size: 100) == [128, 64, 16])
    #expect(try sides(Self.application, size: 20) == [64, 128, 16])
  }

  @Test func applicationOfFlatForm_hasTheIconBesideItsPropertyList() throws {
    let files: Files = [
      ("Info.plist", info(["CFBundleIconFiles": "Icon"])), ("Icon@2x.png", SamplePicture.png(120)),
      ("Icon.png", SamplePicture.png(60)),
    ]
    #expect(try sides(files, size: 100) == [120, 60])
  }

  @Test func application_withoutAnIcon_hasNone() throws {
    #expect(
      try sides([("Contents/Info.plist", info([:])), ("Contents/Resources/a.icns", icon(32))], size: 32) == []
    )
  }

  @Test(arguments: [
    ["QuickLook/Thumbnail.png"], ["QuickLook/Preview.png"], ["QuickLook/Icon.png"], ["preview.png"],
    ["previews/preview.png"],
    ["Alternatives/000/WindowImage.png"],
  ])
  func document_hasThePreviewThatItCarries(path: [String]) throws {
    #expect(try sides(path.map { ($0, SamplePicture.png(40)) } + [("Index.zip", [1])], size: 40) == [40])
  }

  @Test func document_withPreviewsOfSeveralSizes_hasThatWhichFits() throws {
    let files: Files = [
      ("preview.png", SamplePicture.png(300)), ("preview-web.png", SamplePicture.png(200)),
      ("preview-micro.png", SamplePicture.png(50)),
    ]
    #expect(try sides(files, size: 128) == [200, 300, 50])
    #expect(try sides(files, size: 256) == [300, 200, 50])
  }

  @Test func customIcon_inAnAttributeOrAppleDouble_comesFirst() throws {
    let fork = SamplePicture.resourceFork(customIcon: icon(99))
    let sidecar: Files = [("Icon\r", []), ("._Icon\r", SamplePicture.appleDouble(fork))]
    #expect(try sides(Self.application + sidecar, size: 32) == [99])
    for name in ["user.com.apple.ResourceFork", "user.DosStream.AFP_Resource:$DATA"] {
      #expect(
        try sides(Self.application + [("Icon\r", [])], size: 32, attributes: [("Icon\r", name, fork)]) == [99]
      )
    }
  }

  @Test func customIcon_ofAFile_isInItsOwnFork() throws {
    let tree = try PackageTree([
      ("notes.txt", [1]),
      ("._notes.txt", SamplePicture.appleDouble(SamplePicture.resourceFork(customIcon: icon(77)))),
      ("other.txt", [2]),
    ])
    func pictures(_ name: String) -> [Int?] {
      PackagePicture.pictures(of: .file(FilePath(name), in: FilePath(tree.path)), size: 32).map {
        PictureHeader($0)?.side
      }
    }
    #expect(pictures("notes.txt") == [77])
    #expect(pictures("other.txt") == [])
  }

  @Test func pictures_neverLieOutsideOfThePackage() throws {
    let tree = try PackageTree([
      ("A/Contents/Info.plist", info(["CFBundleIconFile": "../../../secret"])), ("secret.icns", icon(8)),
    ])
    mkdir("\(tree.path)/A/Contents/Resources", 0o755)
    for (link, target) in [
      ("A/preview.png", "../secret.png"), ("A/QuickLook", ".."), ("A/Icon\r", "../secret.icns"),
    ] {
      try #require(symlink(target, "\(tree.path)/\(link)") == 0)
    }
    #expect(PackagePicture.pictures(of: .directory(FilePath("\(tree.path)/A")), size: 8) == [])
  }

  @Test func pictures_aboveTheLimits_areLeftOut() throws {
    let large = icon(16) + Array(repeating: 0, count: ParserLimits.pictureBytes)
    var files = Self.application
    files[2].content = large
    #expect(try sides(files, size: 16) == [])
    #expect(
      try sides(
        (0..<9).map {
          (
            "preview.\(["png", "PNG", "jpg", "JPG", "tif", "TIF", "tiff", "jpeg", "Png"][$0])",
            SamplePicture.png(20)
          )
        }, size: 16
      ).count == 4)
  }

  @Test func streamOfOtherKind_hasNoPicture() throws {
    let tree = try PackageTree([("a.tar", Array(repeating: 0, count: 4096))])
    let file = Descriptor(adopting: open("\(tree.path)/a.tar", O_RDONLY))
    #expect(PackagePicture.pictures(of: .stream(file.rawValue), size: 16) == [])
  }
}

/// An icon with a PNG of each of these sides.
private func icon(_ sides: Int...) -> [UInt8] {
  SamplePicture.icon(sides.map { ("ic07", SamplePicture.png($0)) })
}

/// An Info.plist.
private func info(_ pairs: [String: String]) -> [UInt8] {
  Array(("{" + pairs.map { "\($0.key) = \"\($0.value)\";" }.joined() + "}").utf8)
}
