/// The user that mounts: root registers files with the kernel itself, an ordinary user mounts by fusermount3.
enum MountKind: String, CaseIterable {
  case root, user

  var title: String {
    switch self {
    case .root: "Mounted by root"
    case .user: "Mounted by an ordinary user"
    }
  }
}
