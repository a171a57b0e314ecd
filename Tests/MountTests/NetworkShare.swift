import Glibc
import Testing

/// Network file systems of which both the server and the client run on this machine.
enum Network: String, CaseIterable, Sendable, CustomTestStringConvertible {
  case nfs3 = "NFS 3"
  case nfs4 = "NFS 4.2"
  case smb = "SMB 3"
  case plan9 = "9P"
  case ceph = "CephFS"

  var testDescription: String { rawValue }
  var isNFS: Bool { self == .nfs3 || self == .nfs4 }
  /// Samba makes none for clients of Linux.
  var hasSymlinks: Bool { self != .smb }

  private static let obstacles = Dictionary(uniqueKeysWithValues: allCases.map { ($0, $0.findObstacle()) })
  /// What is missing here; nil where nothing is.
  var obstacle: String? { Self.obstacles[self] ?? nil }

  /// Cancels a test, or its case, where something is missing.
  func expectUsable() throws {
    if let obstacle { try Test.cancel("\(obstacle)") }
  }

  private func findObstacle() -> String? {
    switch self {
    case .nfs3, .nfs4:
      Machine.servesNFS ? nil : "The kernel has no NFS server or client, or nfs-kernel-server is missing."
    case .smb: Self.missing(modules: ["cifs"], types: ["cifs"], programs: ["smbd", "smbpasswd", "mount.cifs"])
    case .plan9: Self.missing(modules: ["9p", "9pnet_fd"], types: ["9p"], programs: ["diod"])
    case .ceph: Self.missing(modules: [], types: [], programs: CephCluster.programs)
    }
  }

  private static func missing(modules: [String], types: [String], programs: [String]) -> String? {
    let missing = Shell.run(
      """
      modprobe -a \(modules.joined(separator: " ")) 2>/dev/null
      for type in \(types.joined(separator: " ")); do grep -qw "$type" /proc/filesystems || echo "the kernel's $type"; done
      for program in \(programs.joined(separator: " ")); do command -v "$program" >/dev/null || echo "$program"; done
      """
    ).text
    return missing.isEmpty ? nil : "There is no " + missing.replacing("\n", with: ", no ") + "."
  }
}

extension Trait where Self == ConditionTrait {
  /// For tests with a parameter of this type: each cancels the cases of what is missing here, and at least one is there.
  static var networks: Self {
    let obstacles = Network.allCases.compactMap(\.obstacle)
    return .enabled(
      if: geteuid() == 0 && obstacles.count < Network.allCases.count,
      "\(geteuid() == 0 ? Set(obstacles).sorted().joined(separator: " ") : "Only root can mount.")")
  }
}

/// A directory that a server on this machine serves, mounted for as long as this object lives. What is changed in `served` is
/// changed by another client, as far as the mount knows.
final class NetworkShare {
  let served: String
  private let network: Network
  private let mountPoint: String
  private let directory: TemporaryDirectory

  /// - Parameters:
  ///   - mountPoint: an empty directory.
  ///   - squashesRoot: whether an NFS server gives root the rights of an anonymous user. (`root_squash`)
  init(_ network: Network, at mountPoint: String, squashesRoot: Bool = false) throws {
    try network.expectUsable()
    self.network = network
    self.mountPoint = mountPoint
    directory = try TemporaryDirectory()
    chmod(directory.root, 0o755)
    served = directory.path("served")
    makeDirectory(served)
    makeDirectory(directory.path("state"))
    let port = Int.random(in: 20_000..<30_000)
    let (serve, mount) =
      switch network {
      case .nfs3, .nfs4: Self.nfs(network, squashesRoot: squashesRoot)
      case .smb: try smb(port)
      case .plan9: Self.plan9(port)
      case .ceph: try Self.ceph()
      }
    // A server that has just been started may not accept connections yet.
    let mounted = Shell.run(
      """
      \(serve)
      for attempt in $(seq 60); do \(mount) "$MOUNT" 2>errors && exit 0; sleep 0.5; done
      cat errors >&2; exit 1
      """, in: directory.path("state"), with: ["SERVED": served, "MOUNT": mountPoint])
    try #require(mounted.status == 0, "\(mounted.complaint)")
  }

  deinit {
    _ = Shell.run(
      """
      umount "$MOUNT" || umount -l "$MOUNT"
      [ ! -e server ] || kill "$(cat server)"
      \(network == .ceph ? Self.clearCeph : #"exportfs -u localhost:"$SERVED" && exportfs -f"#)
      """, in: directory.path("state"), with: ["SERVED": served, "MOUNT": mountPoint])
  }

  private static func nfs(_ network: Network, squashesRoot: Bool) -> (serve: String, mount: String) {
    let squash = squashesRoot ? "root_squash" : "no_root_squash"
    let version = network == .nfs3 ? "vers=3,nolock" : "vers=4.2"
    return (
      #"exportfs -o rw,fsid=8,\#(squash),no_subtree_check,insecure localhost:"$SERVED""#,
      #"mount -t nfs -o \#(version) localhost:"$SERVED""#
    )
  }

  private func smb(_ port: Int) throws -> (serve: String, mount: String) {
    let state = directory.path("state")
    let places = [
      "private dir", "lock directory", "state directory", "cache directory", "pid directory", "ncalrpc dir",
    ]
    try put(
      """
      [global]
        interfaces = 127.0.0.1/8
        bind interfaces only = yes
        smb ports = \(port)
        disable netbios = yes
        load printers = no
        passdb backend = smbpasswd:\(state)/users
        log file = \(state)/log
      \(places.map { "  \($0) = \(state)\n" }.joined())
      [share]
        path = \(served)
        read only = no
        # A client with an oplock would not look whether a file was changed beside the server.
        oplocks = no
      """, at: "\(state)/smb.conf")
    return (
      """
      printf 'word\\nword\\n' | smbpasswd -c "$PWD/smb.conf" -a -s root
      setsid smbd -s "$PWD/smb.conf" --foreground --no-process-group >/dev/null 2>&1 &
      echo $! >server
      """,
      "mount -t cifs -o port=\(port),username=root,password=word,vers=3.1.1 //127.0.0.1/share"
    )
  }

  private static func plan9(_ port: Int) -> (serve: String, mount: String) {
    (
      #"""
      setsid diod -n -f -L "$PWD/log" -e "$SERVED" -l 127.0.0.1:\#(port) >/dev/null 2>&1 &
      echo $! >server
      """#,
      #"mount -t 9p -o trans=tcp,port=\#(port),version=9p2000.L,aname="$SERVED",access=client 127.0.0.1"#
    )
  }

  /// Where it is changed is the mount of another client.
  private static func ceph() throws -> (serve: String, mount: String) {
    let client = try "ceph-fuse -c '\(CephCluster.configuration())' >/dev/null"
    return (#"\#(client) "$SERVED" 2>/dev/null"#, client)
  }

  /// The next test begins with an empty file system.
  private static let clearCeph = #"rm -rf "$SERVED"/*; umount "$SERVED""#
}
