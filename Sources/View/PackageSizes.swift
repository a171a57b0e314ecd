import BackingTree
import CFuse
import Glibc
import PackageStream
import Synchronization
import SystemPackage

/// How long the streams of packages are, remembered as long as the packages stay as they are.
final class PackageSizes: Sendable {
  struct Measure: Sendable {
    /// Bytes.
    var size: Int64
    /// When the newest part was modified.
    var newest: timespec
  }

  private struct Remembered {
    let stamp: PackageStamp
    let measure: Measure
  }

  private static let capacity = 4096
  private let remembered = Mutex<[FileIdentity: Remembered]>([:])

  /// The measure of a package that a directory holds. A package that cannot be read whole counts as empty.
  func measure(_ name: UnsafePointer<CChar>, in parent: Directory, type: String) -> Measure {
    guard let package = try? parent.subdirectory(name), let status = try? fileStatus(package.rawValue) else {
      return Measure(size: 0, newest: timespec())
    }
    let identity = FileIdentity(status)
    let directory = Directory(descriptor: package.rawValue)
    if let known = remembered.withLock({ $0[identity] }), let stamp = try? PackageStamp(of: directory),
      stamp == known.stamp
    {
      return known.measure
    }
    guard let layout = try? PackageLayout(of: directory, type: type) else {
      return Measure(size: 0, newest: status.st_mtim)
    }
    let measure = Measure(size: layout.size, newest: layout.newestModification)
    guard layout.stamp.isSettled else { return measure }
    remembered.withLock { remembered in
      if remembered.count >= Self.capacity { remembered.removeAll() }
      remembered[identity] = Remembered(stamp: layout.stamp, measure: measure)
    }
    return measure
  }
}
