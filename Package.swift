// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "displayfs",
  products: [
    .executable(name: "displayfs", targets: ["displayfs"]),
    .executable(name: "displayfs-passthrough", targets: ["displayfs-passthrough"]),
    .executable(name: "displayfs-picture", targets: ["displayfs-picture"]),
    .library(name: "DisplayNames", targets: ["DisplayNames", "View"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.8.0"),
  ],
  targets: [
    .target(name: "CLinux"),
    .target(name: "CFuse", dependencies: ["CLinux"], linkerSettings: [.linkedLibrary("fuse3")]),
    .target(name: "DisplayNames"),
    .target(name: "MacMetadata"),
    .target(name: "Configuration", dependencies: ["DisplayNames"]),
    .target(
      name: "BackingTree",
      dependencies: ["CLinux", .product(name: "SystemPackage", package: "swift-system")]),
    .systemLibrary(name: "CZlib", providers: [.apt(["zlib1g-dev"])]),
    .target(
      name: "PackageStream",
      dependencies: ["BackingTree", "CZlib", .product(name: "SystemPackage", package: "swift-system")]),
    .target(
      name: "View",
      dependencies: [
        "CLinux", "DisplayNames", "MacMetadata", "BackingTree", "PackageStream",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .target(
      name: "PackagePictures",
      dependencies: [
        "BackingTree", "CLinux", "CZlib", "MacMetadata", "PackageStream",
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .target(
      name: "FuseServer",
      dependencies: [
        "CFuse", "CLinux", "BackingTree", "DisplayNames", "View",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .executableTarget(
      name: "displayfs",
      dependencies: [
        "CFuse", "CLinux", "BackingTree", "Configuration", "DisplayNames", "FuseServer", "PackagePictures", "View",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    // For the tests. What is installed Mount/files.sh compiles: one has rights that its user lacks, the other has none, and SwiftPM
    // links Swift's libraries to programs in C as well.
    .executableTarget(name: "displayfs-passthrough"),
    .executableTarget(name: "displayfs-picture"),
    .executableTarget(
      name: "bench",
      dependencies: ["CBench", .product(name: "ArgumentParser", package: "swift-argument-parser")]),
    // What the benchmark needs of C.
    .target(name: "CBench"),
    // What the tests with random inputs share.
    .target(name: "Fuzzing", path: "Tests/Fuzzing"),
    // What the tests of a view without a mount share.
    .target(
      name: "ViewedTree",
      dependencies: [
        "BackingTree", "DisplayNames", "View", .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      path: "Tests/ViewedTree"),
    // Pictures for tests.
    .target(name: "SamplePictures", dependencies: ["MacMetadata", "PackagePictures"], path: "Tests/SamplePictures"),
    .testTarget(name: "DisplayNamesTests", dependencies: ["DisplayNames"]),
    .testTarget(name: "MacMetadataTests", dependencies: ["Fuzzing", "MacMetadata"]),
    .testTarget(name: "ConfigurationTests", dependencies: ["Configuration", "DisplayNames", "Fuzzing"]),
    .testTarget(
      name: "BackingTreeTests",
      dependencies: ["BackingTree", "CLinux", .product(name: "SystemPackage", package: "swift-system")]),
    .testTarget(
      name: "RequestLoopTests",
      dependencies: [
        "BackingTree", "CFuse", "CLinux", .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(
      name: "PackageStreamTests",
      dependencies: [
        "BackingTree", "CLinux", "Fuzzing", "PackageStream", .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(
      name: "PackagePicturesTests",
      dependencies: [
        "BackingTree", "CLinux", "Fuzzing", "MacMetadata", "PackagePictures", "PackageStream", "SamplePictures",
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(
      name: "ViewTests",
      dependencies: [
        "View", "ViewedTree", "DisplayNames", "MacMetadata", "BackingTree",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    // The code of the articles for users of the library, who reach public declarations alone.
    .testTarget(
      name: "ExampleTests",
      dependencies: [
        "DisplayNames", "View", "ViewedTree", .product(name: "SystemPackage", package: "swift-system"),
      ],
      packageAccess: false),
    .testTarget(
      name: "FuseServerTests",
      dependencies: [
        "FuseServer", "View", "ViewedTree", "CFuse", "DisplayNames", "BackingTree",
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(
      name: "MountTests",
      dependencies: [
        "BackingTree", "CLinux", "Fuzzing", "MacMetadata", "PackagePictures", "SamplePictures",
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
  ],
  swiftLanguageModes: [.v6]
)
