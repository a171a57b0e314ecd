import CLinux
import SystemPackage

/// Stops work for a client that is being killed, and work for a reply when the session ends.
public enum Interruption {
  /// To be called regularly by long operations: walks, copies. Costs a few nanoseconds while no client is interrupted.
  ///
  /// - Throws: EINTR when the client whose request the calling thread serves is being killed, and within `runDiscardable` when
  ///   the session ends. When the client only handles a signal, the request continues: few programs expect EINTR from a file
  ///   system.
  @inline(__always)
  public static func check() throws(Errno) { if dfs_request_is_interrupted() { throw .interrupted } }

  /// Does work that is lost without harm when its request gets no reply, such as a walk to find out a size. The end of the session
  /// interrupts it. Work that saves what a client wrote is completed.
  public static func runDiscardable<R: ~Copyable, Failure: Error>(
    _ body: () throws(Failure) -> R
  ) throws(Failure) -> R {
    let before = dfs_request_set_discardable(true)
    defer { dfs_request_set_discardable(before) }
    return try body()
  }
}
