import Testing

@testable import MacMetadata

@Suite struct BundleInfoTests {
  @Test func bundleInfo_prefersMacNamesAndIgnoresBlankOnes() throws {
    let info = try #require(
      BundleInfo(
        utf8(
          """
          { CFBundleDisplayName = Generic; "CFBundleDisplayName-macos" = Mac; CFBundleName = " "; CFBundleIdentifier = "com.example.x";
            CFBundleDevelopmentRegion = en; CFBundleLocalizations = (de, fr); LSHasLocalizedDisplayName = 1; }
          """)))
    #expect(info.displayName == "Mac")
    #expect(info.name == nil)
    #expect(info.identifier == "com.example.x")
    #expect(info.developmentRegion == "en")
    #expect(info.localizations == ["de", "fr"])
    #expect(info.hasLocalizedDisplayName == true)
    #expect(
      BundleInfo.localizedName(
        in: ["CFBundleName-macos": "", "CFBundleName": "Notizen"], key: "CFBundleName") == "Notizen")
  }

  @Test func bundleInfo_readsDeclaredTypes() throws {
    let info = try #require(
      BundleInfo(
        utf8(
          """
          { UTExportedTypeDeclarations = ({ UTTypeIdentifier = "dev.example.penpot"; UTTypeConformsTo = "com.apple.package";
              UTTypeTagSpecification = { "public.filename-extension" = penpot; }; }, { UTTypeConformsTo = x; }, junk);
            UTImportedTypeDeclarations = ({ UTTypeIdentifier = i; UTTypeConformsTo = (a, b);
              UTTypeTagSpecification = { "public.filename-extension" = (p, q); }; });
            CFBundleDocumentTypes = ({ LSTypeIsPackage = YES; CFBundleTypeExtensions = ("*", Bundle); LSItemContentTypes = (t); },
              { CFBundleTypeExtensions = (txt); }); }
          """)))
    #expect(
      info.types == [
        TypeDeclaration(
          identifier: "dev.example.penpot", conformsTo: ["com.apple.package"], extensions: ["penpot"],
          exported: true),
        TypeDeclaration(identifier: "i", conformsTo: ["a", "b"], extensions: ["p", "q"], exported: false),
      ])
    #expect(info.packageExtensions == ["Bundle"])
    #expect(info.packageContentTypes == ["t"])
    #expect(BundleInfo(utf8("(a)")) == nil)
  }

  static func bundle(_ types: [TypeDeclaration], extensions: [String] = [], contentTypes: [String] = [])
    -> BundleInfo
  {
    var info = BundleInfo(utf8("{}"))!
    info.types = types
    info.packageExtensions = extensions
    info.packageContentTypes = contentTypes
    return info
  }
  static func type(_ id: String, _ parents: [String], _ extensions: [String], exported: Bool = true)
    -> TypeDeclaration
  {
    TypeDeclaration(identifier: id, conformsTo: parents, extensions: extensions, exported: exported)
  }

  struct Case: Sendable {
    var bundles: [BundleInfo]
    var expected: [String: String?]
  }

  @Test(arguments: [
    Case(
      bundles: [bundle([type("a", ["com.apple.package"], ["FOO", "*", "x/y", ""])])], expected: ["foo": "a"]),
    Case(
      bundles: [bundle([type("a", ["b"], ["foo"])]), bundle([type("b", ["known.package"], [])])],
      expected: ["foo": "a"]),
    Case(bundles: [bundle([type("a", ["b"], ["foo"]), type("b", ["a"], ["bar"])])], expected: [:]),
    Case(
      bundles: [bundle([type("a", ["b", "com.apple.package"], ["foo"]), type("b", ["a"], ["bar"])])],
      expected: ["foo": "a", "bar": "b"]),
    Case(
      bundles: [
        bundle([type("a", ["com.apple.package"], ["foo"], exported: false)]),
        bundle([type("a", ["public.data"], ["foo"])]),
      ],
      expected: [:]),
    Case(
      bundles: [
        bundle([type("a", ["com.apple.package"], ["foo"])]),
        bundle([type("z", ["public.data"], ["foo"], exported: false)]),
      ],
      expected: ["foo": "a"]),
    Case(
      bundles: [bundle([type("t", ["public.data"], ["foo"])], extensions: ["Bar"], contentTypes: ["t"])],
      expected: ["foo": "t", "bar": nil]),
  ])
  func packageExtensions_followTypeConformance(_ test: Case) {
    let expected = Set(test.expected.map { PackageExtension(extension: $0.key, type: $0.value) })
    #expect(PackageExtension.declared(by: test.bundles, packageTypes: ["known.package"]) == expected)
    #expect(
      PackageExtension.declared(by: test.bundles.reversed(), packageTypes: ["known.package"]) == expected)
  }
}
