import Glibc

/// A directory below the backing tree's root that each run of a workload has for itself.
///
/// ext4 looks long for a free inode where many were freed in the last minutes. In a top directory (chattr +T) it has a new
/// directory lie where its name says, so each has another, also than those of the benchmark before.
enum FreshDirectory {
  // Workloads run one after another.
  nonisolated(unsafe) private(set) static var name = ""

  static func make(in source: String) {
    Program.run(["chattr", "+T", source])
    name = "fresh-\(UInt32.random(in: 0...UInt32.max))"
    mkdir("\(source)/\(name)", 0o755)
  }

  static func remove(in source: String) { Program.run(["rm", "-rf", "\(source)/\(name)"]) }
}
