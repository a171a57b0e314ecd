/// The current position of a stream in the package's tree. Checks whether the next member is allowed there.
struct MemberOrderValidator {
  /// The path of the innermost open directory: the one that contains the last member, or that member if it is a directory.
  private var path: [UInt8] = []
  /// Where the names in `path` end.
  private var ends: [Int] = []
  /// The last name seen in each of these directories and at the top; empty before the first.
  private var last: [[UInt8]] = [[]]
  /// Hashes of the regular files' paths, to check links. A hash collision accepts a link that fails later when it is created.
  private var regularFiles: Set<Int> = []
  private var isComplete = false

  /// Advances to a member. Throws when the member is not allowed here.
  mutating func check(_ member: PaxMember) throws(PackageImportError) {
    guard !isComplete else { throw .damaged("The stream goes on after its last member.") }
    if member.path.isEmpty {
      guard member.kind == .directory else { throw .refused([], "is not a directory") }
      isComplete = true
      return
    }
    // The names before the last one were checked when the directories were opened.
    let slash = member.path.lastIndex(of: 0x2f)
    let name = Array(member.path[(slash.map { $0 + 1 } ?? 0)...])
    guard !name.isEmpty, name.count <= 255, !name.contains(0), name != [0x2e], name != [0x2e, 0x2e],
      slash != 0
    else { throw .refused(member.path, "has a path that is not one inside a package") }
    guard let depth = depth(of: member.path[..<(slash ?? 0)]) else {
      throw .refused(member.path, "is not in a directory of the package")
    }
    ends.removeLast(ends.count - depth)
    path.removeLast(path.count - (ends.last ?? 0))
    last.removeLast(last.count - depth - 1)
    guard last[depth].lexicographicallyPrecedes(name) else {
      throw .refused(member.path, "comes twice or out of order")
    }
    last[depth] = name
    switch member.kind {
    case .directory:
      path = member.path
      ends.append(path.count)
      last.append([])
    case .regular:
      regularFiles.insert(member.path.hashValue)
    case .hardLink:
      guard regularFiles.contains(member.target.hashValue) else {
        throw .refused(member.path, "is a link to a file that did not come before it")
      }
    case .symlink:
      guard Self.staysInside(member.target, depth: depth) else {
        throw .refused(member.path, "is a symlink that leads out of the package")
      }
    case .characterDevice, .blockDevice:
      throw .refused(member.path, "is a device")
    case .fifo:
      break
    }
  }

  /// How many directories lead to an open directory, with itself; nil if none with this path is open.
  private func depth(of parent: ArraySlice<UInt8>) -> Int? {
    if parent.isEmpty { return 0 }
    guard parent.count <= path.count, parent == path[..<parent.count] else { return nil }
    return ends.lastIndex(of: parent.count).map { $0 + 1 }
  }

  /// Whether a symlink `depth` directories below the package can only lead to an entry of the package.
  ///
  /// `..` is accepted only at the beginning: after a name that is itself a symlink, it would go up from that symlink's target,
  /// which may be at a higher level. A target with at most `depth` leading `..` that then only goes down stays inside, also
  /// through other symlinks of that form.
  static func staysInside(_ target: [UInt8], depth: Int) -> Bool {
    guard let first = target.first, first != 0x2f, target.count < 4096, !target.contains(0) else {
      return false
    }
    var level = depth
    var goesDown = false
    for component in target.split(separator: 0x2f) where !component.elementsEqual([0x2e]) {
      if component.elementsEqual([0x2e, 0x2e]) {
        if goesDown || level == 0 { return false }
        level -= 1
      } else {
        goesDown = true
      }
    }
    return true
  }
}
