import Glibc

extension Workload {
  /// Reading and writing large files, in order in pieces of 1 MiB and at random in pieces of 4 KiB, by one and by four.
  /// They are open before the time is taken: opening is a workload of its own. They are gone through again until half a second
  /// is over, since the milliseconds of one pass say more of the machine's moment than of the file system.
  static func data(_ scale: Scale) -> [Workload] {
    [1, 4].flatMap { jobs in
      [
        transfer("sequential read", scale, jobs, piece: 1 << 20, isWrite: false),
        transfer("sequential write", scale, jobs, piece: 1 << 20, isWrite: true),
        transfer("random read", scale, jobs, piece: 4096, isWrite: false),
        transfer("random write", scale, jobs, piece: 4096, isWrite: true),
      ]
    } + [rereading(scale)]
  }

  /// Random reading of a file that was read to its end and closed before, and has not changed since. A file
  /// system that keeps the pages of a file from one open to the next keeps them now.
  private static func rereading(_ scale: Scale) -> Workload {
    let (piece, blocks) = (4096, scale.megabytes << 8)
    let order = shuffled(blocks, blocks)
    return Workload(name: "random read 4 KiB, opened again", unit: .megabytes, needs: .largeFiles) {
      mounted in
      let path = "\(mounted.root)/\(Preparation.largeFiles.name)/0"
      try settle(path)
      let before = try Files.open(path, O_RDONLY)
      try transfer(Array(0..<blocks), of: piece, before, path, isWrite: false)
      close(before)
      let file = try Files.open(path, O_RDONLY)
      defer { close(file) }
      return try mounted.measure(blocks, of: Double(piece) / Double(1 << 20), lasting: 0.5) {
        try transfer(order, of: piece, file, path, isWrite: false)
      }
    }
  }

  /// Waits until a file is on the disk and was last changed some seconds ago: before, a server cannot be sure that it would see
  /// the next change by the file's times.
  private static func settle(_ path: String) throws {
    let file = try Files.open(path, O_RDONLY)
    defer { close(file) }
    if fsync(file) != 0 { throw Problem.system(path) }
    var status = stat()
    repeat {
      if fstat(file, &status) != 0 { throw Problem.system(path) }
    } while time(nil) - status.st_ctim.tv_sec <= 3 && usleep(100_000) == 0
  }

  private static func transfer(_ kind: String, _ scale: Scale, _ jobs: Int, piece: Int, isWrite: Bool)
    -> Workload
  {
    let name = "\(kind) \(piece == 4096 ? "4 KiB" : "1 MiB")\(jobs == 1 ? "" : ", \(jobs) jobs")"
    let size = scale.megabytes << 20
    // At random a quarter of the file, or on a slow file system it would never end.
    let count = piece == 4096 ? size / piece / 4 : size / piece
    let order = piece == 4096 ? shuffled(size / piece, count) : Array(0..<count)
    return Workload(name: name, unit: .megabytes, needs: .largeFiles) { mounted in
      let paths = (0..<jobs).map { "\(mounted.root)/\(Preparation.largeFiles.name)/\($0)" }
      let files = try paths.map { try Files.open($0, isWrite ? O_WRONLY : O_RDONLY) }
      defer { for file in files { close(file) } }
      // Nobody writes to pages that are still on their way to the disk from whoever came before.
      if isWrite {
        for job in 0..<jobs where fsync(files[job]) != 0 { throw Problem.system(paths[job]) }
      }
      return try mounted.measure(jobs * count, of: Double(piece) / Double(1 << 20), lasting: 0.5) {
        try inThreads(jobs) { job in
          try transfer(order, of: piece, files[job], paths[job], isWrite: isWrite)
        }
      }
    }
  }

  /// Reads or writes pieces of a file, by their numbers.
  private static func transfer(
    _ order: [Int], of piece: Int, _ file: CInt, _ path: String, isWrite: Bool
  ) throws {
    let buffer = UnsafeMutableRawPointer.allocate(byteCount: piece, alignment: 4096)
    defer { buffer.deallocate() }
    memset(buffer, 0x5a, piece)
    for block in order {
      let done =
        isWrite ? pwrite(file, buffer, piece, block * piece) : pread(file, buffer, piece, block * piece)
      if done != piece { throw Problem.system(path) }
    }
  }

  /// `count` of the numbers below `limit`, the same each time.
  private static func shuffled(_ limit: Int, _ count: Int) -> [Int] {
    var state: UInt64 = 1
    return (0..<count).map { _ in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int(state >> 33) % limit
    }
  }
}
