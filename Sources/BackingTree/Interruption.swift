import CFuse
import SystemPackage

/// Stops work for a client that is being killed.
public enum Interruption {
  /// To be called regularly by long operations: walks, copies. Costs a few nanoseconds while no client is interrupted.
  ///
  /// - Throws: EINTR when the client whose request the calling thread serves is being killed. When the client only handles a
  ///   signal, the request continues: few programs expect EINTR from a file system.
  @inline(__always)
  public static func check() throws(Errno) { if dfs_request_is_interrupted() { throw .interrupted } }
}
