import BackingTree
import Glibc
import SystemPackage

/// Changes the kernel's options of a mounted view, for `mount -o remount,ro`.
///
/// Options of displayfs itself do not concern the kernel: `displayfs set` changes them.
enum Remount {
  /// - Throws: a failure, among others where the path leads to another mount by then: an ordinary user may own a directory above
  ///   the mount point.
  static func perform(_ mountPoint: FilePath, _ options: MountOptions) throws(Failure) {
    guard let mount = MountTable.topmost(at: mountPoint), mount.isView else {
      throw Failure(.mount, "\(mountPoint): no displayfs is mounted here whose options could be changed")
    }
    do throws(Errno) { try mount.remount(flags(options.fuse)) } catch {
      let advice =
        switch error {
        case .resourceBusy: "; files are open for writing here"
        case .staleNFSFileHandle, .tooManySymbolicLinkLevels: "; the path leads to another mount by now"
        default: ""
        }
      throw Failure(.mount, "\(mountPoint): its options cannot be changed: \(error)\(advice)")
    }
  }

  /// As in libfuse, `nosuid` and `nodev` are the default although only root can remount: set-user-ID programs and devices need
  /// `suid` and `dev`.
  private static func flags(_ options: [String]) -> UInt {
    var flags = UInt(MS_NOSUID) | UInt(MS_NODEV)
    for option in options {
      switch option {
      case "ro": flags |= UInt(MS_RDONLY)
      case "nosuid": flags |= UInt(MS_NOSUID)
      case "suid": flags &= ~UInt(MS_NOSUID)
      case "nodev": flags |= UInt(MS_NODEV)
      case "dev": flags &= ~UInt(MS_NODEV)
      case "noexec": flags |= UInt(MS_NOEXEC)
      case "exec": flags &= ~UInt(MS_NOEXEC)
      case "noatime": flags |= UInt(MS_NOATIME)
      case "sync": flags |= UInt(MS_SYNCHRONOUS)
      case "dirsync": flags |= UInt(MS_DIRSYNC)
      default: break
      }
    }
    return flags
  }
}
