/// How long a daemon may take to reply to a request before the kernel aborts the connection, with which the view ends. (Linux
/// 6.15; `init_server_timeout` and fs/fuse/req_timeout.c)
///
/// The daemon names no timeout in its reply to INIT, so the two sysctls of fs.fuse decide, with their values at that time.
package enum RequestTimeout {
  /// In seconds; nil where the kernel waits for ever.
  ///
  /// - Parameters:
  ///   - standard: `default_request_timeout`, in seconds; 0 is none.
  ///   - maximum: `max_request_timeout`, in seconds; 0 is none. It holds where there is no default as well.
  package static func seconds(default standard: Int, maximum: Int) -> Int? {
    guard let shorter = [standard, maximum].filter({ $0 > 0 }).min() else { return nil }
    // FUSE_TIMEOUT_TIMER_FREQ, the time between two looks at what waits.
    return max(shorter, 15)
  }
}
