import Glibc
import SystemPackage

/// A pair of sockets in place of /dev/fuse.
final class SimulatedDevice {
  /// The end that workers receive requests from and reply to.
  let device: CInt
  /// The end of the kernel.
  let kernel: CInt

  init() throws {
    var ends: [CInt] = [0, 0]
    guard socketpair(AF_UNIX, CInt(SOCK_SEQPACKET.rawValue), 0, &ends) == 0 else {
      throw Errno(rawValue: errno)
    }
    (device, kernel) = (ends[0], ends[1])
  }

  deinit {
    close(device)
    close(kernel)
  }
}
