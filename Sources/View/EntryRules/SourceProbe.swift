import BackingTree
import DisplayNames
import Glibc
import SystemPackage

extension SourceTraits {
  /// Examines a directory and its path for signs of what kind of tree it is.
  init(of directory: Directory) {
    self = []
    func isDirectory(_ path: String) -> Bool {
      guard let found = try? directory.openBeneath(path, 0o10000000 /* O_PATH */),
        let status = try? fileStatus(found.rawValue)
      else { return false }
      return FileType(mode: status.st_mode) == .directory
    }
    let directories: [(String, SourceTraits)] = [
      ("System/Library/CoreServices", .systemLibrary), ("Applications", .applications), ("Users", .users),
      ("Library", .library), ("etc", .etc), ("usr", .usr), ("var", .varDirectory), ("tmp", .tmp),
      ("Documents", .documents), ("Desktop", .desktop), ("Downloads", .downloads),
    ]
    for (path, trait) in directories where isDirectory(path) { insert(trait) }
    // A symlink on most Linux systems.
    if directory.has("bin") { insert(.bin) }
    if directory.hasFile(Array(".config/user-dirs.dirs".utf8)) { insert(.xdgUserDirs) }
    if [".profile", ".bashrc", ".bash_profile", ".zshrc"].contains(where: {
      directory.hasFile(Array($0.utf8))
    }) {
      insert(.shellDotFiles)
    }
    if ["Data/Documents", "Data/Library", "Data/tmp"].allSatisfy(isDirectory) { insert(.sandboxData) }
    let path = Self.path(of: directory)
    if Self.isHome(path) { insert(.isSomeUsersHome) }
    let components = path.split(separator: UInt8(ascii: "/"))
    if components.count >= 2, components[components.count - 2].elementsEqual("Mobile Documents".utf8),
      Profile.isCloudContainer(Name(components[components.count - 1]))
    {
      insert(.isCloudContainer)
    }
  }

  private static func path(of directory: Directory) -> [UInt8] {
    (try? Directory(descriptor: AT_FDCWD).symlinkTarget("/proc/self/fd/\(directory.descriptor)")) ?? []
  }

  /// Whether the user database has the path as the home of root or of an ordinary user. System accounts have `/` and similar
  /// directories as their home.
  private static func isHome(_ path: [UInt8]) -> Bool {
    guard path.count > 1, let table = Directory(descriptor: AT_FDCWD).wholeFile("/etc/passwd") else {
      return false
    }
    return table.split(separator: UInt8(ascii: "\n")).contains { line in
      let fields = line.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
      guard fields.count >= 6, fields[5].elementsEqual(path),
        let user = UInt32(String(decoding: fields[2], as: UTF8.self))
      else { return false }
      return user == 0 || user >= 1000
    }
  }
}

extension View {
  /// The kind of tree that a directory is.
  package static func detectProfile(of directory: Directory) -> Profile {
    Profile.detect(SourceTraits(of: directory))
  }
}
