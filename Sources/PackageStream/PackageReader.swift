import BackingTree
import Glibc
import SystemPackage

/// The stream of a package, read at any offset.
///
/// What it returns is what the layout saw: a file that was replaced or changed since then gives EIO, never other data.
/// All methods may be called from several threads at once.
public final class PackageReader: Sendable {
  public let layout: PackageLayout

  private let package: Descriptor
  private let recent = Guarded<[OpenFile]>([])

  /// Backing files kept open between reads.
  public static let keptOpen = 4

  private final class OpenFile: Sendable {
    let member: Int
    let descriptor: Descriptor

    init(member: Int, descriptor: consuming Descriptor) {
      self.member = member
      self.descriptor = descriptor
    }
  }

  /// - Parameters:
  ///   - layout: of the package that `package` is open on.
  ///   - package: the package's directory; O_PATH is enough.
  public init(layout: PackageLayout, package: consuming Descriptor) {
    self.layout = layout
    self.package = package
  }

  /// Reads at an offset until `buffer` is full or the stream ends.
  ///
  /// Finds its place in O(log n) and reads no more of the backing files than it returns.
  ///
  /// - Returns: the number of bytes read; fewer than asked for only at the end of the stream.
  /// - Throws: EINVAL for a negative offset, and for what the layout does not cover; EIO when a part it needs has changed since
  ///   the layout was made, or is gone; otherwise the errno of opening or reading the part.
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

  /// Checks that the calling thread's credentials permit to see what the layout says without any file being opened for its
  /// data: the entries of directories, extended attributes, holes. A layout may have been made with other credentials, and
  /// the kernel, which knows nothing of the parts, has not checked these.
  ///
  /// A directory that has changed since then is refused, too: its entries may have been none that these credentials could see.
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
    } catch { throw error.afterLooking }
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

  /// Fills `buffer` with stored data of a member, from the byte at `position` of it on.
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
    // Afterwards is enough: what differs before differs then too.
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
      forget(file)
      throw Errno.ioError
    }
  }

  private func open(_ index: Int) throws(Errno) -> OpenFile {
    let kept = recent.withLock { files -> OpenFile? in
      guard let place = files.firstIndex(where: { $0.member == index }) else { return nil }
      let file = files.remove(at: place)
      files.append(file)
      return file
    }
    if let kept { return kept }
    let named: Descriptor
    do {
      named = try Directory(descriptor: package.rawValue).locateDeep(layout.path(index))
    } catch {
      throw error.afterLooking
    }
    // What else has been put in the file's place is not opened, which acts on a device and wakes who waits at a FIFO.
    guard layout.entries[index].matches(try fileStatus(named.rawValue)) else { throw Errno.ioError }
    let file = OpenFile(member: index, descriptor: try named.opened(O_RDONLY | O_NONBLOCK))
    // Closed outside the lock, when `dropped` goes.
    let dropped = recent.withLock { files -> OpenFile? in
      files.append(file)
      return files.count > Self.keptOpen ? files.removeFirst() : nil
    }
    _ = dropped
    return file
  }

  private func forget(_ file: OpenFile) { recent.withLock { $0.removeAll { $0 === file } } }
}
