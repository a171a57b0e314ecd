/// The kind of tree that SOURCE is. Determines where volume roots and homes are.
public enum Profile: String, CaseIterable, Sendable {
  /// To be replaced by the result of ``detect(_:)``; has no special directories itself.
  case auto
  case macos
  case home
  case unix
  case ios
  case icloud
  /// The general rules for names, dot files and packages, without volume roots and homes.
  case plain
  /// No rules: the view mirrors the backing tree.
  case none

  /// Whether the view differs from the backing tree in any way.
  public var appliesRules: Bool { self != .none }

  /// The profile of a tree with these traits; never `auto` and never `none`.
  ///
  /// Traits that only one kind of tree has are tested before traits that several kinds may have. A directory known to be a user's
  /// home is one, unless it has the traits of a whole system.
  public static func detect(_ traits: SourceTraits) -> Profile {
    if traits.contains(.systemLibrary) || traits.contains([.applications, .users, .library]) {
      return .macos
    }
    if traits.contains([.etc, .usr]), !traits.isDisjoint(with: [.bin, .varDirectory]) { return .unix }
    if traits.contains(.isSomeUsersHome) { return .home }
    if traits.contains(.isCloudContainer) { return .icloud }
    if !traits.isDisjoint(with: [.xdgUserDirs, .shellDotFiles]) { return .home }
    if traits.contains([.desktop, .documents]), !traits.isDisjoint(with: [.library, .downloads]) {
      return .home
    }
    if traits.contains([.documents, .library, .tmp]) || traits.contains(.sandboxData) { return .ios }
    return .plain
  }

  /// Whether the profile assigns a role to any directory by its path.
  package var hasRoles: Bool {
    switch self {
    case .auto, .plain, .none: false
    case .home, .icloud, .ios, .macos, .unix: true
    }
  }

  /// The role of the directory at `components`, names relative to SOURCE. SOURCE itself is `[]`.
  public func role(ofPath components: [Name]) -> DirectoryRole {
    let depth = components.count
    switch self {
    case .auto, .plain, .none: return []
    case .home: return Self.role(inHome: components[...])
    case .icloud: return depth == 0 ? .cloudContainer : []
    case .ios: return depth == 0 || components == ["Data"] ? .container : []
    case .macos:
      if depth == 0 { return .macVolumeRoot }
      if depth == 1 { return components[0] == "Users" ? .usersDirectory : [] }
      if components[0] == "Volumes" { return depth == 2 ? .macVolumeRoot : [] }
      return components[0] == "Users" && components[1] != "Shared" ? Self.role(inHome: components[2...]) : []
    case .unix:
      if depth == 0 { return .unixRoot }
      if depth == 1 {
        return components[0] == "home" ? .usersDirectory : components[0] == "root" ? .home : []
      }
      return depth == 2 && components[0] == "home" && components[1] != "lost+found" ? .home : []
    }
  }

  /// The role of a directory below a Mac user's home, which contains the containers of sandboxed applications and the iCloud
  /// containers.
  private static func role(inHome path: ArraySlice<Name>) -> DirectoryRole {
    guard let first = path.first else { return .home }
    guard first == "Library", (3...4).contains(path.count) else { return [] }
    let rest = path.dropFirst(2)
    switch path[path.startIndex + 1] {
    case "Containers": return rest.count == 1 || rest.last == "Data" ? .container : []
    case "Mobile Documents": return rest.count == 1 && isCloudContainer(rest.first!) ? .cloudContainer : []
    default: return []
    }
  }

  /// Whether a directory of `Mobile Documents` is the container of an application: `iCloud~com~example~app`. The one for iCloud
  /// Drive contains the user's own files.
  public static func isCloudContainer(_ name: Name) -> Bool {
    name.bytes.contains(UInt8(ascii: "~")) && name != "com~apple~CloudDocs"
  }
}
