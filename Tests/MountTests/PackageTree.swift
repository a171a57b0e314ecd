import Glibc
import Testing

/// A package with one of everything that a stream carries, and the comparing of trees.
enum PackageTree {
  /// Makes the package `Album.photoslibrary` in a directory, everything in it hours old.
  static func album(in directory: String) throws {
    let album = "\(directory)/Album.photoslibrary"
    makeDirectory("\(album)/masters/empty")
    for number in 0..<20 { try put("picture \(number)", at: "\(album)/masters/\(number % 4)/\(number).jpg") }
    try put([], at: "\(album)/masters/nothing")
    try put(
      [UInt8]((0..<70_001).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }),
      at: "\(album)/database/Photos.sqlite")
    try put("x", at: "\(album)/" + String(repeating: "n", count: 240))
    try put("x", at: "\(album)/Grüße 日本.txt")
    let script = """
      cd '\(album)' && ln -s masters/0/0.jpg link && ln database/Photos.sqlite 'second name' && mkfifo pipe
      printf x >"$(printf 'odd\\377\\nname')"
      truncate -s 3M sparse && printf data | dd of=sparse bs=1 seek=2000000 conv=notrunc status=none
      setfattr -n user.tag -v red masters/0/0.jpg; setfattr -n user.tag -v blue masters; setfattr -n user.tag -v top .
      chmod 600 masters/1/1.jpg; chmod 755 masters/2/2.jpg; chmod 750 masters/3
      find . -exec touch -h -d '2003-04-05 06:07:08.123456789' {} +
      touch -d '2004-05-06 07:08:09.987654321' masters/0/0.jpg; touch -d 2002-02-02 .
      """
    try #require(Shell.run(script).status == 0)
  }

  /// Every entry of a tree with its kind, mode, owner, times, links, attributes and content, one a line.
  static func description(_ path: String) -> Set<FileName> {
    let script = """
      cd '\(path)' || exit 1
      find . -printf '%p|%y|%m|%U:%G|%T@|%l' \\( -type f -printf '|%n|%s' -o -true \\) -printf '\\n'
      find . -type f -exec sha256sum -z {} + | tr '\\0' '\\n'
      getfattr -R -P -d -m '^user' . 2>/dev/null
      """
    return Shell.run(script).names
  }

  static func expectSame(
    _ left: String, _ right: String, _ comment: String = "", sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let expected = description(left)
    #expect(expected.count > 1, "there is nothing at \(left)", sourceLocation: sourceLocation)
    let difference = description(right).difference(from: expected)
    #expect(difference == nil, "\(comment) \(difference ?? "")", sourceLocation: sourceLocation)
  }
}

extension MountedView {
  /// What an import that failed must not leave.
  var leftovers: Set<FileName> {
    func found() -> Set<FileName> { Shell.run("find '\(source)' -name '.displayfs-staging*'").names }
    _ = eventually(within: .work) { found().isEmpty }
    return found()
  }
}
