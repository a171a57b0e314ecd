import Glibc
import SystemPackage

/// Makes a Macintosh volume with one document in a temporary directory, and removes it when `body` has ended.
public func withMacintoshVolume(_ body: (FilePath) throws -> Void) throws {
  var template = Array("/tmp/displayfs-volume-XXXXXX".utf8CString)
  guard let made = mkdtemp(&template) else { throw Errno(rawValue: errno) }
  let root = FilePath(String(cString: made))
  let directories = [
    "System", "System/Library", "System/Library/CoreServices", "Users", "Users/anna", "Users/anna/Library",
    "Users/anna/Music",
  ]
  let files = ["Users/.localized", "Users/anna/Music/.localized", "Users/anna/Music/song.mp3"]
  defer {
    for path in (directories + files).sorted().reversed() { remove("\(root)/\(path)") }
    rmdir("\(root)")
  }
  for path in directories { mkdir("\(root)/\(path)", 0o755) }
  for path in files { close(open("\(root)/\(path)", O_WRONLY | O_CREAT, 0o644)) }
  try body(root)
}
