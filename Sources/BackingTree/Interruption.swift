import CFuse
import SystemPackage

/// What is done for a client that was killed meanwhile need not be finished.
public enum Interruption {
  /// To be called now and then by what takes long: walks, copies. Costs a few nanoseconds while no client is interrupted.
  ///
  /// - Throws: EINTR when the client is being killed whose request the calling thread serves. A client that handles a signal
  ///   goes on, and its request does: few programs expect EINTR from a file system.
  @inline(__always)
  public static func check() throws(Errno) { if dfs_request_is_interrupted() { throw .interrupted } }
}
