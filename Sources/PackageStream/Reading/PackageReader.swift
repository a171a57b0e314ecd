import BackingTree
import Glibc
import SystemPackage

/// Reads the stream of a package at any offset.
///
/// It returns only data of the files that the layout was made from: if a file was replaced or changed since then, the read fails
/// with EIO. All methods are thread-safe.
public final class PackageReader: Sendable {
  public let layout: PackageLayout

  private let package: Descriptor
  private let recent = Guarded<[OpenFile]>([])

  /// The number of backing files kept open between reads.
  public static let maximumOpenFiles = 4

  private final class OpenFile: Sendable {
    let member: Int
    let descriptor: Descriptor

    init(member: Int, descriptor: consuming Descriptor) {
      self.member = member
      self.descriptor = descriptor
    }
  }

  /// - Parameters:
  ///   - layout: the layout of `package`.
  ///   - package: the package's directory; O_PATH is enough.
  public init(layout: PackageLayout, package: consuming Descriptor) {
    self.layout = layout
    self.package = package
  }

  /// Reads at an offset until `buffer` is full or the stream ends.
  ///
  /// Finds the position in O(log n), and reads no more of the backing files than it returns.
  ///
  /// - Returns: the number of bytes read; less than the size of `buffer` only at the end of the stream.
  /// - Throws: EINVAL for a negative offset or a range that the layout does not cover; EIO when a part in the range has changed
  ///   since the layout was made, or is gone; otherwise the errno of opening or reading the part.
  public func pread(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(Errno) -> Int {
    guard layout.covers(buffer.count, at: offset) else { throw Errno.invalidArgument }
    guard offset < layout.size, !buffer.isEmpty else { return 0 }
    let total = Int(min(Int64(buffer.count), layout.size - offset))
    var rest = UnsafeMutableRawBufferPointer(rebasing: buffer[..<total])
    var position = offset
    func take(_ count: Int) {
      rest = UnsafeMutableRawBufferPointer(rebasing: rest[count...])
      position += Int64(count)
    }
    if position < layout.start.count { take(copy(layout.start, from: position, to: rest)) }
    if position < layout.trailerOffset && !rest.isEmpty {
      var index = layout.member(at: position)
      while !rest.isEmpty && index < layout.entries.count {
        let entry = layout.entries[index]
        if position < entry.offset + Int64(entry.headLength) {
          take(copy(layout.head(index), from: position - entry.offset, to: rest))
        }
        let data = entry.offset + Int64(entry.headLength)
        let length = layout.dataLength(index)
        if position < data + length && !rest.isEmpty {
          let count = Int(min(Int64(rest.count), data + length - position))
          try read(
            index, at: position - data, into: UnsafeMutableRawBufferPointer(rebasing: rest[..<count]))
          take(count)
        }
        take(zero(rest, count: data + length + padding(length) - position))
        index += 1
      }
    }
    take(zero(rest, count: layout.size - position))
    return total
  }

  /// Checks that the calling thread's credentials permit reading the metadata in the layout: the entries of directories, extended
  /// attributes, holes. Reading that metadata from the stream opens no file, the layout may have been made with other
  /// credentials, and the kernel does not know the parts and has not checked their permissions.
  ///
  /// A directory that has changed since then is refused too: these credentials may not have been able to see its entries.
  ///
  /// - Throws: EACCES; EIO when such a part has changed or is gone.
  public func checkReadable() throws(Errno) {
    let top = Directory(descriptor: package.rawValue)
    try top.check(".", R_OK | X_OK)
    for (index, entry) in layout.entries.enumerated() {
      switch FileType(mode: entry.mode) {
      case .directory: try checkReadable(directory: index, below: top)
      case .regular where entry.extra >= 0: _ = try open(index)
      default: break
      }
    }
  }

  private func checkReadable(directory index: Int, below top: Directory) throws(Errno) {
    do throws(Errno) {
      let opened = try top.openDeepDirectory(layout.path(index))
      try Directory(descriptor: opened.rawValue).check(".", X_OK)
      guard layout.entries[index].matches(try fileStatus(opened.rawValue)) else { throw .ioError }
    } catch { throw error.afterListing }
  }

  private func copy(_ bytes: [UInt8], from start: Int64, to buffer: UnsafeMutableRawBufferPointer) -> Int {
    let part = bytes[Int(start)...].prefix(buffer.count)
    buffer.copyBytes(from: part)
    return part.count
  }

  private func zero(_ buffer: UnsafeMutableRawBufferPointer, count: Int64) -> Int {
    let count = Int(min(Int64(buffer.count), count))
    UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]).initializeMemory(as: UInt8.self, repeating: 0)
    return count
  }

  // MARK: - Data

  /// Fills `buffer` with the stored data of a member, beginning at byte `position` of it.
  private func read(_ index: Int, at position: Int64, into buffer: UnsafeMutableRawBufferPointer)
    throws(Errno)
  {
    let file = try open(index)
    if let sparse = layout.sparse(index) {
      var done = 0
      var segment = sparse.segment(atStored: position)
      while done < buffer.count {
        let piece = sparse.segments[segment]
        let skipped = position + Int64(done) - piece.stored
        let count = Int(min(Int64(buffer.count - done), piece.length - skipped))
        try fill(
          UnsafeMutableRawBufferPointer(rebasing: buffer[done..<(done + count)]), from: file,
          at: piece.offset + skipped)
        done += count
        segment += 1
      }
    } else {
      try fill(buffer, from: file, at: position)
    }
    // One check after the read suffices: it also detects a change made before the read.
    try check(file)
  }

  private func fill(
    _ buffer: UnsafeMutableRawBufferPointer, from file: OpenFile, at offset: Int64
  ) throws(Errno) {
    guard try readFully(file.descriptor.rawValue, into: buffer, at: offset) == buffer.count else {
      throw Errno.ioError
    }
  }

  private func check(_ file: OpenFile) throws(Errno) {
    guard layout.entries[file.member].matches(try fileStatus(file.descriptor.rawValue)) else {
      drop(file)
      throw Errno.ioError
    }
  }

  private func open(_ index: Int) throws(Errno) -> OpenFile {
    let kept = recent.withLock { files -> OpenFile? in
      guard let match = files.firstIndex(where: { $0.member == index }) else { return nil }
      let file = files.remove(at: match)
      files.append(file)
      return file
    }
    if let kept { return kept }
    let named: Descriptor
    do {
      named = try Directory(descriptor: package.rawValue).locateDeep(layout.path(index))
    } catch {
      throw error.afterListing
    }
    // The name may lead to another file by now. Check that before the open, which would act on a device and wake a process that
    // waits at a FIFO.
    guard layout.entries[index].matches(try fileStatus(named.rawValue)) else { throw Errno.ioError }
    let file = OpenFile(member: index, descriptor: try named.opened(O_RDONLY | O_NONBLOCK))
    // `dropped` is destroyed, and its file closed, after the lock is released.
    let dropped = recent.withLock { files -> OpenFile? in
      files.append(file)
      return files.count > Self.maximumOpenFiles ? files.removeFirst() : nil
    }
    _ = dropped
    return file
  }

  private func drop(_ file: OpenFile) { recent.withLock { $0.removeAll { $0 === file } } }
}
