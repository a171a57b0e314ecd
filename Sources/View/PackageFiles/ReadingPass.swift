import BackingTree
import SystemPackage

/// A pass over a package for a client that reads it: to find out its size, whether it has changed, or its layout.
enum ReadingPass {
  /// Makes the pass with the share of the CPU time that its user has, and interrupts it when the session ends.
  ///
  /// - Throws: as `body`, which throws EINTR when it is interrupted. That says nothing about the package.
  static func run<R: ~Copyable>(_ body: () throws(Errno) -> R) throws(Errno) -> R {
    try ProcessorShare.run { () throws(Errno) in try Interruption.runDiscardable(body) }
  }
}
