import BackingTree
import Glibc
import SystemPackage

/// Finds the directories that a file is in by reading the whole tree, for a file handle of which nothing else is known: after a
/// restart of the daemon, when the kernel has dropped the file's name from its caches.
///
/// What is found of other files on the way is kept, so that one search serves the handles of all files.
final class FileSearch: Sendable {
  /// For how long a file that is not in the tree is not searched for again. A client with CAP_DAC_READ_SEARCH, or one of an NFS
  /// server, can make up handles of files outside of the tree.
  private static let pause = Duration.seconds(10)
  private static let mostAttempts = 3

  private let missing = Guarded<[DurableNodeID: ContinuousClock.Instant]>([:])

  /// - Throws: EINTR when the client is being killed; EAGAIN where directories are moved all the time.
  func directories(
    of file: DurableNodeID, below top: Directory, _ handles: InodeHandles, _ nodes: NodeTable
  ) throws(Errno) -> [DurableNodeID] {
    if let time = missing.withLock({ $0[file] }), ContinuousClock.now - time < Self.pause { return [] }
    var found: [DurableNodeID] = []
    for attempt in 1... {
      found = []
      do throws(Errno) {
        try search(top, handles) { (directory, files) in
          if files.contains(file.inode) { found.append(directory) }
          nodes.noteFiles(files, in: directory)
        }
        break
      } catch {
        if error == .interrupted { throw error }
        if !found.isEmpty { break }
        if attempt == Self.mostAttempts { throw .resourceTemporarilyUnavailable }
      }
    }
    if found.isEmpty {
      missing.withLock {
        if $0.count >= 1024 { $0 = [:] }
        $0[file] = ContinuousClock.now
      }
    }
    return found
  }

  /// Calls `body` with each directory and the inode numbers of the files in it.
  private func search(
    _ top: Directory, _ handles: InodeHandles, _ body: (DurableNodeID, [UInt64]) -> Void
  ) throws(Errno) {
    let root = try top.status()
    try DirectoryTree.forEachDirectory(top) { (directory) throws(Errno) in
      try Interruption.check()
      var (files, subdirectories): ([UInt64], [[UInt8]]) = ([], [])
      try forEachEntry(of: directory.descriptor) { entry in
        if entry.type == .directory || entry.type == .unknown { subdirectories.append(Array(entry.name)) }
        if entry.type != .directory { files.append(entry.inode) }
      }
      let status = try directory.status()
      if FileIdentity(status) == FileIdentity(root) {
        body(DurableNodeID(rawValue: 1), files)
      } else if let handle = try? handles.handle(of: "", in: directory), let generation = handle.generation,
        let id = DurableNodeID(inode: handle.inode, generation: generation, nodeKind: .plain)
      {
        body(id, files)
      }
      return subdirectories
    }
  }
}
