/// The current position of a stream in the package's tree. Checks whether the next member is allowed there.
struct MemberOrderValidator {
  /// The names of the directories that contain the last member, and of that member when it is a directory.
  private var open: [ArraySlice<UInt8>] = []
  /// The last name seen in each of `open` and at the top; empty before the first.
  private var last: [ArraySlice<UInt8>] = [[]]
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
    let components = member.path.split(separator: 0x2f, omittingEmptySubsequences: false)
    for component in components {
      guard !component.isEmpty, component.count <= 255, !component.contains(0),
        !component.elementsEqual([0x2e]), !component.elementsEqual([0x2e, 0x2e])
      else { throw .refused(member.path, "has a path that is not one inside a package") }
    }
    let depth = components.count - 1
    let name = components[depth]
    guard depth <= open.count, open[..<depth].elementsEqual(components[..<depth], by: ==) else {
      throw .refused(member.path, "is not in a directory of the package")
    }
    open.removeLast(open.count - depth)
    last.removeLast(last.count - depth - 1)
    guard last[depth].lexicographicallyPrecedes(name) else {
      throw .refused(member.path, "comes twice or out of order")
    }
    last[depth] = name
    switch member.kind {
    case .directory:
      open.append(name)
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
