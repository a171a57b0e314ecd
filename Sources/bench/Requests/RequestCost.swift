import CBench
import Glibc

/// What one request costs at least: the time of an lstat that is one GETATTR request to the smallest server there can be, a
/// thread that replies without a library or a look at anything (`bench_serve_smallest`).
///
/// Client and server are bound to one processor, where a request is two context switches. The floor of an operation is this
/// time multiplied by the number of its requests: what it would take if they cost nothing but the way to a server and back.
/// Copied data, the backing file system and what the kernel does by itself come on top of it. A server may fall below its
/// floor where no program waits for some of the requests and another processor replies to them.
struct RequestCost {
  /// In seconds; client and server run on one processor.
  let onSameProcessor: Double
  /// In seconds; they run on two, of which each has to wake the other. Nil where there is only one.
  let onAnotherProcessor: Double?

  /// - Throws: when the smallest server cannot be mounted, as by any user but root.
  static func measure(in work: Scratch) throws -> RequestCost {
    guard Account.isRoot else { throw Problem("only root can mount the smallest server") }
    let (first, second) = (bench_usable_processor(0), bench_usable_processor(1))
    return RequestCost(
      onSameProcessor: try measure(in: work, client: first, server: first),
      onAnotherProcessor: second < 0 ? nil : try measure(in: work, client: first, server: second))
  }

  private static func measure(in work: Scratch, client: CInt, server: CInt) throws -> Double {
    try onNewThread {
      try bind(server)
      // It inherits the processor.
      guard let process = Program.start(["/proc/self/exe", "--serve-smallest", work.floor]) else {
        throw Problem("the smallest server could not be started")
      }
      defer {
        umount2(work.floor, CInt(MNT_DETACH))
        _ = Program.wait(for: process)
      }
      let start = now()
      while !Mounted.isMounted(work.floor) {
        guard now() - start < 10 else { throw Problem("the smallest server did not mount within 10 s") }
        usleep(200)
      }
      try bind(client)
      return median(try (0..<batches).map { _ in try secondsOfOne(work.floor) })
    }
  }

  private static let (batches, requestsInBatch) = (11, 500)

  private static func secondsOfOne(_ path: String) throws -> Double {
    let start = now()
    for _ in 0..<requestsInBatch { try Files.status(path) }
    return (now() - start) / Double(requestsInBatch)
  }

  private static func bind(_ processor: CInt) throws {
    if bench_stay_on(processor) != 0 { throw Problem.system("running on processor \(processor)") }
  }
}
