/// What kind of tree SOURCE is: where volume roots and homes are.
public enum Profile: String, CaseIterable, Sendable {
  /// To be found out with ``detect(_:)``; has no special places itself.
  case auto
  case macos
  case home
  case unix
  case ios
  case icloud
  /// Names, dot files and packages as everywhere, but no volume root and no home.
  case plain
  /// No rule at all: a mirror.
  case none

  /// Whether the view differs from the backing tree in any way.
  public var appliesRules: Bool { self != .none }

  /// The profile of a tree with these traits; never `auto` and never `none`.
  ///
  /// The order goes from what only one kind of tree has to what several may have. A directory that is known
  /// to be somebody's home is one whatever lies in it.
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

  /// Whether there is any directory that it knows by its path.
  package var hasPlaces: Bool {
    switch self {
    case .auto, .plain, .none: false
    case .home, .icloud, .ios, .macos, .unix: true
    }
  }

  /// What the directory at `components`, names relative to SOURCE, is. SOURCE itself is `[]`.
  public func place(ofPath components: [Name]) -> Place {
    let depth = components.count
    switch self {
    case .auto, .plain, .none: return []
    case .home: return Self.place(inHome: components[...])
    case .icloud: return depth == 0 ? .cloudContainer : []
    case .ios: return depth == 0 || components == ["Data"] ? .container : []
    case .macos:
      if depth == 0 { return .macVolumeRoot }
      if depth == 1 { return components[0] == "Users" ? .usersDirectory : [] }
      if components[0] == "Volumes" { return depth == 2 ? .macVolumeRoot : [] }
      return components[0] == "Users" && components[1] != "Shared" ? Self.place(inHome: components[2...]) : []
    case .unix:
      if depth == 0 { return .unixRoot }
      if depth == 1 {
        return components[0] == "home" ? .usersDirectory : components[0] == "root" ? .home : []
      }
      return depth == 2 && components[0] == "home" && components[1] != "lost+found" ? .home : []
    }
  }

  /// What a directory below a Mac user's home is: sandboxed applications have their containers there, and iCloud those that
  /// it keeps alike on all devices.
  private static func place(inHome path: ArraySlice<Name>) -> Place {
    guard let first = path.first else { return .home }
    guard first == "Library", (3...4).contains(path.count) else { return [] }
    let rest = path.dropFirst(2)
    switch path[path.startIndex + 1] {
    case "Containers": return rest.count == 1 || rest.last == "Data" ? .container : []
    case "Mobile Documents": return rest.count == 1 && isCloudContainer(rest.first!) ? .cloudContainer : []
    default: return []
    }
  }

  /// Whether a directory of `Mobile Documents` is the container of an application: `iCloud~com~example~app`. The one that
  /// is called iCloud Drive holds the user's own files.
  public static func isCloudContainer(_ name: Name) -> Bool {
    name.bytes.contains(UInt8(ascii: "~")) && name != "com~apple~CloudDocs"
  }
}
