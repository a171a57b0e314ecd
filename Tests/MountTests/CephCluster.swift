import Glibc
import Testing

/// A cluster of Ceph of one daemon of each kind, with all objects in memory. It is started for the first test that uses it, and ends
/// with the tests.
enum CephCluster {
  /// Beside those that serve the file system, those of the client and of its administration.
  static let programs = ["ceph-mon", "ceph-osd", "ceph-mds", "ceph-fuse", "ceph", "monmaptool"]

  private static let root: String = {
    var template = Array("\(Shell.temporaryDirectory)/displayfs-ceph-XXXXXX".utf8CString)
    guard let made = mkdtemp(&template) else { return "/nonexistent" }
    atexit { CephCluster.stop() }
    return String(cString: made)
  }()

  private static let start: Outcome = {
    // A monitor has to have a port of its own that all others know beforehand.
    let address = "v2:127.0.0.1:\(Int.random(in: 30_000..<32_000))"
    let settings = """
      [global]
        fsid = 4c1f6d0e-2a3b-4c5d-8e9f-0a1b2c3d4e5f
        mon host = \(address)
        public addr = 127.0.0.1
        auth cluster required = none
        auth service required = none
        auth client required = none
        mon data = \(root)/mon
        osd data = \(root)/osd
        mds data = \(root)/mds
        crash dir = \(root)/crash
        run dir = \(root)
        admin socket =
        log file = \(root)/$name.log
        mon cluster log file = \(root)/cluster.log
        osd objectstore = memstore
        osd pool default size = 1
        osd crush chooseleaf type = 0
        mon allow pool size one = true

      """
    guard (try? put(settings, at: "\(root)/ceph.conf")) != nil else {
      return Outcome(status: 126, output: [], errors: [])
    }
    return Shell.run(
      """
      set -ex
      export CEPH_CONF="$PWD/ceph.conf"
      mkdir mon osd mds
      monmaptool --create --fsid 4c1f6d0e-2a3b-4c5d-8e9f-0a1b2c3d4e5f --addv a '[\(address)]' map
      ceph-mon -i a --mkfs --monmap map
      ceph-mon -i a --pid-file mon.pid
      identifier=$(cat /proc/sys/kernel/random/uuid)
      ceph osd new "$identifier"
      ceph-osd -i 0 --mkfs --osd-uuid "$identifier"
      ceph-osd -i 0 --pid-file osd.pid
      ceph-mds -i a --pid-file mds.pid
      ceph osd pool create data 8
      ceph osd pool create meta 8
      ceph fs new files meta data
      for attempt in $(seq 60); do ceph mds stat | grep -q up:active && exit; sleep 0.5; done
      exit 1
      """, in: root)
  }()

  /// - Returns: the file with which clients find the cluster.
  static func configuration() throws -> String {
    try #require(start.status == 0, "\(start.complaint)")
    return "\(root)/ceph.conf"
  }

  private static func stop() {
    _ = Shell.run(
      #"""
      # Without the monitor, which is the last, the others do not end by themselves.
      for daemon in mds osd mon; do
        [ -s $daemon.pid ] || continue
        process=$(cat $daemon.pid)
        kill "$process"
        for attempt in $(seq 50); do
          [ -e "/proc/$process/fd/0" ] || continue 2
          sleep 0.1
        done
        kill -9 "$process"
      done
      rm -rf "$PWD"
      """#, in: root)
  }
}
