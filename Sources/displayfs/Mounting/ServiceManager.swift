import Glibc

/// Notifies the service manager that started the process, in systemd's protocol (sd_notify(3)): lines in one datagram, sent to
/// the socket that the environment names.
enum ServiceManager {
  /// The mount is ready.
  static func ready(_ status: String) { notify("READY=1\nMAINPID=\(getpid())\nSTATUS=\(oneLine(status))") }
  /// The configuration is being reloaded, until `reloaded`. The time lets the manager distinguish this message from an older one.
  static func reloading() {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    notify("RELOADING=1\nMONOTONIC_USEC=\(now.tv_sec * 1_000_000 + now.tv_nsec / 1000)")
  }
  static func reloaded() { notify("READY=1") }
  static func stopping() { notify("STOPPING=1\nSTATUS=Unmounting") }

  /// Does nothing if no manager listens.
  private static func notify(_ message: String) {
    guard let name = getenv("NOTIFY_SOCKET"), strlen(name) > 1 else { return }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let length = strlen(name)
    guard length < MemoryLayout.size(ofValue: address.sun_path) else { return }
    withUnsafeMutableBytes(of: &address.sun_path) { path in
      path.copyMemory(from: UnsafeRawBufferPointer(start: name, count: length))
      // An abstract socket's name begins with NUL, which an environment variable cannot contain.
      if path[0] == UInt8(ascii: "@") { path[0] = 0 }
    }
    let socket = Glibc.socket(
      AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard socket >= 0 else { return }
    defer { close(socket) }
    // Without a final NUL, which would be a part of an abstract name.
    let addressLength = socklen_t(MemoryLayout<sa_family_t>.size + length)
    let bytes = Array(message.utf8)
    _ = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        sendto(socket, bytes, bytes.count, CInt(MSG_NOSIGNAL), $0, addressLength)
      }
    }
  }

  /// A line break in a name would begin another assignment.
  private static func oneLine(_ text: String) -> String {
    String(text.unicodeScalars.map { $0.value < 0x20 ? "?" : Character($0) })
  }
}
