import BackingTree
import Glibc
import SystemPackage
import Testing

@testable import PackageStream

@Suite struct PackageImportTests {
  /// A file with these bytes, open.
  static func file(_ bytes: [UInt8], in directory: Directory) throws -> Descriptor {
    let file = try directory.open("stream", O_CREAT | O_TRUNC | O_RDWR, mode: 0o644)
    try bytes.withUnsafeBytes { try writeFully(file.rawValue, $0, at: 0) }
    return file
  }

  @Test func package_isRestoredExactly() throws {
    let temporary = try TemporaryTree()
    let original = try temporary.subdirectory("package")
    try makeOddPackage(in: Directory(descriptor: original.rawValue))
    let reader = try reader(Directory(descriptor: original.rawValue))
    let stream = try Self.file(try reader.allBytes(), in: temporary.directory)
    let restored = try temporary.subdirectory("restored")
    // Access lists inherited from a directory around it are no part of the package.
    try #require(shell("setfacl -d -m u:99:rwx '\(temporary.path)/restored'") == 0)
    #expect(PackageImport.type(of: stream.rawValue) == bundleType)
    let found = try PackageImport(checking: stream.rawValue)
    #expect(found.type == bundleType)
    #expect(found.memberCount == reader.layout.memberCount)
    try found.unpack(
      into: Directory(descriptor: restored.rawValue), owners: geteuid() == 0 ? .recorded : .client)
    try expectSame(Directory(descriptor: original.rawValue), Directory(descriptor: restored.rawValue))
    let again = try PackageStreamTests.reader(Directory(descriptor: restored.rawValue))
    #expect(try again.allBytes() == reader.allBytes())
  }

  @Test func emptyPackage_isRestored() throws {
    let temporary = try TemporaryTree()
    let original = try temporary.subdirectory("package")
    try setPermissions(original.rawValue, 0o500)
    let stream = try Self.file(
      try reader(Directory(descriptor: original.rawValue)).allBytes(), in: temporary.directory)
    let restored = try temporary.subdirectory("restored")
    try PackageImport(checking: stream.rawValue).unpack(into: Directory(descriptor: restored.rawValue))
    try expectSame(Directory(descriptor: original.rawValue), Directory(descriptor: restored.rawValue))
  }

  @Test func holes_areRestoredAsHoles() throws {
    let temporary = try TemporaryTree()
    let original = try temporary.subdirectory("package")
    let inside = Directory(descriptor: original.rawValue)
    let image = try inside.open("image", O_CREAT | O_RDWR, mode: 0o644)
    try setSize(image.rawValue, 20 << 30)
    try [UInt8](repeating: 1, count: 5000).withUnsafeBytes {
      try writeFully(image.rawValue, $0, at: 10 << 30)
    }
    let stream = try Self.file(try reader(inside).allBytes(), in: temporary.directory)
    let restored = try temporary.subdirectory("restored")
    let copy = Directory(descriptor: restored.rawValue)
    try PackageImport(checking: stream.rawValue).unpack(into: copy)
    try expectSame(inside, copy)
    #expect(try copy.status("image").st_blocks < 100)
  }

  @Test func deepPackage_isRestored() throws {
    let temporary = try TemporaryTree()
    let original = try temporary.subdirectory("package")
    let inside = Directory(descriptor: original.rawValue)
    var path: [UInt8] = []
    for level in 0..<300 {
      let name = [UInt8](repeating: 0x61, count: level % 3 == 0 ? 255 : 3)
      let parent = try inside.openDeepDirectory(path)
      try name.withCName { name throws in
        try Directory(descriptor: parent.rawValue).makeDirectory(name, mode: 0o755)
      }
      path += (path.isEmpty ? [] : [0x2f]) + name
    }
    let stream = try Self.file(try reader(inside).allBytes(), in: temporary.directory)
    let restored = try temporary.subdirectory("restored")
    try PackageImport(checking: stream.rawValue).unpack(into: Directory(descriptor: restored.rawValue))
    try expectSame(inside, Directory(descriptor: restored.rawValue))
  }

  @Test func unpack_forCaller_clearsSetIDBits() throws {
    let temporary = try TemporaryTree()
    let original = try temporary.subdirectory("package")
    let inside = Directory(descriptor: original.rawValue)
    try inside.write("tool", "x")
    try inside.setPermissions("tool", 0o6755)
    let stream = try Self.file(try reader(inside).allBytes(), in: temporary.directory)
    let restored = try temporary.subdirectory("restored")
    try PackageImport(checking: stream.rawValue).unpack(into: Directory(descriptor: restored.rawValue))
    #expect(try Directory(descriptor: restored.rawValue).status("tool").st_mode & 0o7777 == 0o755)
  }

  /// The group bits of a mode and, with access lists, the entries for a user and for the owning group.
  @Test(
    arguments: [
      (
        mode: 0o664, list: nil, isSameGroup: true, expected: 0o764,
        listed: "u::rwx,u:7:r,g::rw,g:8:r,m::rw,o::r"
      ),
      (0o666, nil, true, 0o766, "u::rwx,u:7:rw,g::rw,g:8:rw,m::rw,o::rw"),
      (0o664, nil, false, 0o744, "u::rwx,u:7:r,g::r,g:8:r,m::r,o::r"),
      (0o664, "u:7:rw,g::r", true, 0o744, "u::rwx,u:7:rw,g::r,g:8:r,m::rw,o::r"),
      (0o664, "u:7:r,g::rw", true, 0o744, "u::rwx,u:7:r,g::r,g:8:r,m::r,o::r"),
      (0o666, "u:9:rw,g::rw,g:8:r", true, 0o744, "u::rwx,u:7:r,g::r,g:8:r,m::rw,o::r"),
    ] as [(mode: mode_t, list: String?, isSameGroup: Bool, expected: mode_t, listed: String)])
  func unpack_withinWritePermissionOfFile_grantsNoMore(
    mode: mode_t, list: String?, isSameGroup: Bool, expected: mode_t, listed: String
  ) throws {
    let temporary = try TemporaryTree()
    let file = "\(temporary.path)/file"
    try temporary.directory.write("file", "x")
    try temporary.directory.setPermissions("file", mode)
    if let list { try #require(shell("setfacl -m '\(list)' '\(file)'") == 0) }
    let original = try temporary.subdirectory("package")
    let inside = Directory(descriptor: original.rawValue)
    for name in ["plain", "listed"] { try inside.write(name, "x") }
    try inside.setPermissions("plain", 0o766)
    try inside.setPermissions("listed", 0o766)
    let part = "\(temporary.path)/package/listed"
    try #require(shell("setfacl -m u:7:rw,g::rw,g:8:rw '\(part)'") == 0)
    let stream = try Self.file(try reader(inside).allBytes(), in: temporary.directory)
    let restored = try temporary.subdirectory("restored")
    let status = try temporary.directory.status("file")
    let writers = WritePermission(
      mode: status.st_mode,
      accessList: ExtendedAttributes(of: "file", in: temporary.directory).value(
        AccessList.attribute, limit: 1000), isSameGroup: isSameGroup)
    try PackageImport(checking: stream.rawValue).unpack(
      into: Directory(descriptor: restored.rawValue), writers: writers)
    let unpacked = Directory(descriptor: restored.rawValue)
    #expect(try unpacked.status("plain").st_mode & 0o7777 == expected)
    try #require(
      shell("cp -p '\(part)' '\(part) expected' && setfacl --set '\(listed)' '\(part) expected'") == 0)
    let wanted = ExtendedAttributes(of: "listed expected", in: inside).value(
      AccessList.attribute, limit: 1000)
    #expect(
      ExtendedAttributes(of: "listed", in: unpacked).value(AccessList.attribute, limit: 1000)
        == wanted)
    #expect(try unpacked.status("listed").st_mode == inside.status("listed expected").st_mode)
  }

  @Test func unpack_intoNonEmptyDirectory_isRefused() throws {
    let temporary = try TemporaryTree()
    let original = try temporary.subdirectory("package")
    let stream = try Self.file(
      try reader(Directory(descriptor: original.rawValue)).allBytes(), in: temporary.directory)
    let found = try PackageImport(checking: stream.rawValue)
    #expect(throws: PackageImportError.self) { try found.unpack(into: temporary.directory) }
  }

  // MARK: - Hostile streams

  struct Hostile: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let members: [PaxMember]

    init(_ description: String, _ members: PaxMember...) {
      testDescription = description
      self.members = members
    }
  }

  static func member(_ path: String, _ kind: PaxMember.Kind = .regular, to target: String = "") -> PaxMember {
    PaxMember(
      path: Array(path.utf8), kind: kind, mode: 0o755, owner: 0, group: 0, modified: .epoch,
      target: Array(target.utf8))
  }

  /// The stream of these members, with headers as good as any.
  ///
  /// - Parameter carriesSums: whether checksums of the data follow it, as in streams of earlier versions.
  static func stream(_ members: [PaxMember], top: Bool = true, carriesSums: Bool = false) -> [UInt8] {
    var bytes = GlobalHeader.bytes(type: bundleType) ?? []
    var before: PaxMember?
    for member in members + (top ? [member("", .directory)] : []) {
      var member = member
      if carriesSums, let length = before?.dataLength, length > 0 {
        member.precedingSum = DataChecksum.of([UInt8](repeating: 0, count: Int(length)))
      }
      before = member
      bytes += member.head()
      bytes += [UInt8](repeating: 0, count: Int(member.dataLength + padding(member.dataLength)))
    }
    return bytes + [UInt8](repeating: 0, count: 1024)
  }

  static let hostile: [Hostile] = [
    Hostile("absolute", member("/etc/passwd")),
    Hostile("parent", member("..", .directory), member("../outside")),
    Hostile("parent inside", member("a", .directory), member("a/../b")),
    Hostile("dot", member("a", .directory), member("a/.")),
    Hostile("empty component", member("a", .directory), member("a//b")),
    Hostile("NUL", member("a\u{0}b")),
    Hostile("name of 256 bytes", member(String(repeating: "n", count: 256))),
    Hostile("no parent", member("a/b")),
    Hostile("below a file", member("a"), member("a/b")),
    Hostile("below a symlink", member("a", .symlink, to: "b"), member("a/c")),
    Hostile("twice", member("a"), member("a")),
    Hostile("directory twice", member("a", .directory), member("a", .directory)),
    Hostile("a file in a directory's place", member("a", .directory), member("a/b"), member("a")),
    Hostile("out of order", member("b"), member("a")),
    Hostile("back in a directory", member("a", .directory), member("b"), member("a/c")),
    Hostile("character device", member("null", .characterDevice)),
    Hostile("block device", member("disk", .blockDevice)),
    Hostile("absolute symlink", member("a", .symlink, to: "/etc")),
    Hostile("symlink above", member("a", .symlink, to: "..")),
    Hostile("symlink far above", member("d", .directory), member("d/a", .symlink, to: "../../x")),
    Hostile(
      "symlink above through another", member("d", .directory), member("d/up", .symlink, to: ".."),
      member("out", .symlink, to: "d/up/../x")),
    Hostile("empty symlink", member("a", .symlink)),
    Hostile("link to what follows", member("a", .hardLink, to: "b"), member("b")),
    Hostile("link to nothing", member("a", .hardLink, to: "/etc/passwd")),
    Hostile("link above", member("a", .hardLink, to: "../x")),
    Hostile("link to a symlink", member("a", .symlink, to: "b"), member("c", .hardLink, to: "a")),
    Hostile("link to a directory", member("a", .directory), member("b", .hardLink, to: "a")),
    Hostile("top twice", member("", .directory)),
    Hostile("top is a file", member("", .regular)),
  ]

  @Test(arguments: hostile) func hostileMembers_areRefused(_ hostile: Hostile) throws {
    let temporary = try TemporaryTree()
    let stream = try Self.file(Self.stream(hostile.members), in: temporary.directory)
    #expect(throws: PackageImportError.self) { _ = try PackageImport(checking: stream.rawValue) }
  }

  /// The least number of directories around a symlink with which it stays inside; nil for never.
  static let symlinks: [(target: String, depth: Int?)] = [
    ("x", 0), ("./x", 0), ("x/y//z/", 0), (".", 0), ("..x", 0), ("...", 0), ("..", 1), ("../x", 1),
    ("./../d/./x", 1),
    ("../../x", 2), ("..//../", 2), ("/x", nil), ("//", nil), ("", nil), ("x/..", nil), ("../x/../y", nil),
    ("x\u{0}", nil), (String(repeating: "x", count: 4096), nil),
  ]

  @Test(arguments: symlinks) func symlinkTarget_isAcceptedByDepthIfInside(_ target: String, _ least: Int?) {
    for depth in 0..<4 {
      let expected = least.map { depth >= $0 } ?? false
      #expect(
        MemberOrderValidator.staysInside(Array(target.utf8), depth: depth) == expected, "depth \(depth)")
    }
  }

  @Test func harmlessMembers_areAcceptedUpToLimit() throws {
    let temporary = try TemporaryTree()
    let members = [
      Self.member("a", .directory), Self.member("a/up", .symlink, to: "../b"), Self.member("a-", .fifo),
      Self.member("b"), Self.member("c", .hardLink, to: "b"),
    ]
    let stream = try Self.file(Self.stream(members), in: temporary.directory)
    #expect(try PackageImport(checking: stream.rawValue).memberCount == 6)
    #expect(throws: PackageImportError.self) {
      _ = try PackageImport(checking: stream.rawValue, limits: .init(members: 5))
    }
  }

  @Test func attributeOfSecurityNamespace_isRefused() throws {
    let temporary = try TemporaryTree()
    var member = Self.member("a")
    member.attributes = [.init(name: Array("security.capability".utf8), value: [1])]
    let stream = try Self.file(Self.stream([member]), in: temporary.directory)
    #expect(throws: PackageImportError.self) { _ = try PackageImport(checking: stream.rawValue) }
  }

  @Test func memberLongerThanStream_isRefused() throws {
    let temporary = try TemporaryTree()
    for size in [Int64(4096), 1 << 40, .max, .max - 511] {
      var member = Self.member("a")
      member.size = size
      let bytes =
        (GlobalHeader.bytes(type: bundleType) ?? []) + member.head() + [UInt8](repeating: 0, count: 2048)
      let stream = try Self.file(bytes, in: temporary.directory)
      #expect(throws: PackageImportError.self) { _ = try PackageImport(checking: stream.rawValue) }
    }
  }

  // MARK: - Damaged streams

  @Test func truncatedStream_isRefused() throws {
    let temporary = try TemporaryTree()
    let package = try temporary.subdirectory("package")
    try makeOddPackage(in: Directory(descriptor: package.rawValue))
    let bytes = try reader(Directory(descriptor: package.rawValue)).allBytes()
    let stream = try Self.file(bytes, in: temporary.directory)
    var length = bytes.count
    while length > 0 {
      length -= Int.random(in: 1...700)
      try setSize(stream.rawValue, Int64(max(0, length)))
      #expect(throws: PackageImportError.self) { _ = try PackageImport(checking: stream.rawValue) }
    }
    let longer = try Self.file(bytes + [0], in: temporary.directory)
    #expect(throws: PackageImportError.self) { _ = try PackageImport(checking: longer.rawValue) }
  }

  /// The stream of a package that has one of everything, of which bits can be flipped.
  private struct OddStream: ~Copyable {
    let temporary: TemporaryTree
    private let package: Descriptor
    private let reader: PackageReader
    let stream: Descriptor

    init() throws {
      let temporary = try TemporaryTree()
      let package = try temporary.subdirectory("package")
      let directory = Directory(descriptor: package.rawValue)
      try makeOddPackage(in: directory)
      let reader = try PackageStreamTests.reader(directory)
      let stream = try PackageImportTests.file(try reader.allBytes(), in: temporary.directory)
      self.temporary = temporary
      self.package = package
      self.reader = reader
      self.stream = stream
    }

    var layout: PackageLayout { reader.layout }

    /// Runs `body` while one bit of a byte is another.
    func flipping(_ offset: Int64, _ body: () throws -> Void) throws {
      let original = try reader.bytes(offset..<(offset + 1))
      try [original[0] ^ 1 << UInt8.random(in: 0..<8)].withUnsafeBytes {
        try writeFully(stream.rawValue, $0, at: offset)
      }
      try body()
      try original.withUnsafeBytes { try writeFully(stream.rawValue, $0, at: offset) }
    }
  }

  /// Two files of 600 zeros each.
  private static let filesWithData: [PaxMember] = ["a", "b"].map {
    var file = member($0)
    file.size = 600
    return file
  }

  @Test func streamWithDataChecksums_isAcceptedUnlessBitIsFlipped() throws {
    let temporary = try TemporaryTree()
    var bytes = Self.stream(Self.filesWithData, carriesSums: true)
    for isFlipped in [false, true] {
      if isFlipped { bytes[1024 + 512 + 599] ^= 1 }
      let stream = try Self.file(bytes, in: temporary.directory)
      let found = try PackageImport(checking: stream.rawValue)
      let restored = try temporary.subdirectory("restored \(isFlipped)")
      let result = Result { try found.unpack(into: Directory(descriptor: restored.rawValue)) }
      #expect(((try? result.get()) == nil) == isFlipped)
    }
  }

  @Test func streamWithSomeDataChecksums_isRefused() throws {
    let temporary = try TemporaryTree()
    let zeros = DataChecksum.of([UInt8](repeating: 0, count: 600))
    for isFirst in [false, true] {
      var second = Self.filesWithData[1]
      var top = Self.member("", .directory)
      if isFirst { second.precedingSum = zeros } else { top.precedingSum = zeros }
      let bytes = Self.stream([Self.filesWithData[0], second, top], top: false)
      let stream = try Self.file(bytes, in: temporary.directory)
      #expect(throws: PackageImportError.self) { _ = try PackageImport(checking: stream.rawValue) }
    }
  }

  /// The values are those of zlib.
  @Test func dataChecksum_equalsThatOfZlib() {
    #expect(DataChecksum.of([]) == 0)
    #expect(DataChecksum.of(Array("123456789".utf8)) == 0xcbf4_3926)
    let bytes = (0..<1000).map { UInt8(truncatingIfNeeded: $0) }
    var pieces = DataChecksum()
    for cut in [0..<7, 7..<8, 8..<500, 500..<1000] {
      Array(bytes[cut]).withUnsafeBytes { pieces.add($0) }
    }
    #expect(pieces.value == DataChecksum.of(bytes))
  }

  /// Every bit of every header counts.
  @Test func flippedBitInHeader_isDetected() throws {
    let odd = try OddStream()
    let layout = odd.layout
    for _ in 0..<1000 {
      let index = Int.random(in: 0..<layout.memberCount)
      let offset =
        layout.entries[index].offset + Int64.random(in: 0..<Int64(layout.entries[index].headLength))
      try odd.flipping(offset) {
        #expect(throws: PackageImportError.self, "byte \(offset)") {
          _ = try PackageImport(checking: odd.stream.rawValue)
        }
      }
    }
    #expect(throws: Never.self) { _ = try PackageImport(checking: odd.stream.rawValue) }
  }

  @Test func otherFile_isNotAPackage() throws {
    let temporary = try TemporaryTree()
    for bytes in [[], [UInt8](repeating: 0, count: 4096), Array("%PDF".utf8)] {
      let file = try Self.file(bytes, in: temporary.directory)
      #expect(PackageImport.type(of: file.rawValue) == nil)
      do {
        _ = try PackageImport(checking: file.rawValue)
        Issue.record("taken")
      } catch {
        #expect(error.kind == .notAPackage)
      }
    }
  }

  @Test func readable_escapesControlCharacters() {
    #expect(readable(Array("Grüße".utf8)) == "\"Grüße\"")
    #expect(readable([0x61, 0x0a, 0xff]) == "\"a\\x0a\\xff\"")
  }
}
