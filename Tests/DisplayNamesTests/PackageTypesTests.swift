import Testing

@testable import DisplayNames

private func type(_ name: String, bit: Bool = false) -> PackageType? {
  let bytes = Array(name.utf8)
  return PackageTypes.builtIn.type(of: bytes.span, hasBundleBit: bit)
}

@Suite struct PackageTypesTests {
  @Test(arguments: [
    ("Calc.app", "com.apple.application-bundle", true), ("CALC.APP", "com.apple.application-bundle", true),
    ("x.kext", "com.apple.kernel-extension", true), ("x.bundle", "com.apple.generic-bundle", true),
    ("x.prefpane", "com.apple.systempreference.prefpane", true), ("x.xpc", "com.apple.xpc-service", true),
    ("x.pkg", "com.apple.installer-package", true), ("x.dsym", "com.apple.xcode.dsym", true),
    ("Letter.rtfd", "com.apple.rtfd", false), ("Old.pages", "com.apple.iWork.Pages.pages", false),
    ("Old.key", "com.apple.iWork.Keynote.key", false),
    ("Old.pages-tef", "com.apple.iWork.Pages.pages-tef", false),
    ("Song.band", "com.apple.garageband.project", false),
    ("Song.gbproj", "com.apple.garageband.project", false),
    ("x.mlpackage", "com.apple.coreml.mlpackage", false), ("x.avchd", "public.avchd-collection", false),
    ("Lib.photoslibrary", "com.apple.photos.library", false),
    ("proj.xcodeproj", "com.apple.xcode.project", false),
    ("x.sparsebundle", "com.apple.disk-image-sparse-bundle", false), ("x.scriv", "com.apple.package", false),
    ("x.migratedphotolibrary", "com.apple.package", false),
  ])
  func knownExtension_makesPackage(name: String, uti: String, needsInfoPlist: Bool) {
    #expect(type(name) == PackageType(uti: uti, needsInfoPlist: needsInfoPlist))
  }

  @Test(arguments: [
    "A.framework", "de.lproj", "x.iconset", "x.fpbf", "x.xcassets", "x.xcframework", "x.localized",
    "x.noindex",
    "x.mlmodelc", "nginx.service", "y.template", "z.fs", "a.download", "a.help", "a.trace", "a.action",
    "a.book",
    "a.component", "a.menu", "a.placeholder", "a.theater", "main.dist", "app", ".app", "dir.v1.2", "x.app.",
    "plain", "x. app",
  ])
  func otherExtension_makesNoPackage(name: String) {
    #expect(type(name) == nil)
  }

  @Test func bundleBit_makesAnyDirectoryPackage() {
    #expect(type("bitpkg", bit: true) == .byBundleBit)
    #expect(type("dir.v1.2", bit: true) == .byBundleBit)
    #expect(type("Calc.app", bit: true) == PackageType(uti: "com.apple.application-bundle"))
  }

  @Test func insert_addsDeclaredType() {
    var types = PackageTypes.builtIn
    let penpot = PackageType(uti: "com.example.penpot")
    let isAdded = types.insert("penpot", type: penpot)
    #expect(isAdded)
    let name = Array("My.PenPot".utf8)
    #expect(types.type(of: name.span) == penpot)
    #expect(types.extensions.contains("penpot"))
  }

  @Test(arguments: ["framework", "LPROJ", "localized", "", "a.b", "a/b", "a b"])
  func insert_ofFolderTypeOrInvalidExtension_isRefused(ext: String) {
    var types = PackageTypes.builtIn
    let isAdded = types.insert(ext, type: PackageType(uti: "com.example.x"))
    #expect(!isAdded)
  }

  @Test func insert_ofBuiltInExtension_keepsBuiltInType() {
    var types = PackageTypes.builtIn
    types.insert("app", type: PackageType(uti: "com.example.x"))
    let name = Array("Calc.app".utf8)
    #expect(types.type(of: name.span)?.needsInfoPlist == true)
  }
}
