import Glibc

extension Workload {
  /// What goes by names: each file once, unless it says otherwise.
  static func names(_ scale: Scale) -> [Workload] {
    let files = scale.files
    @Sendable func each(_ mounted: Mounted, _ body: (String) throws -> Void) throws {
      let directory = "\(mounted.root)/\(Preparation.smallFiles.name)"
      for index in 0..<files { try body("\(directory)/\(Preparation.name(index))") }
    }
    return [
      Workload(name: "open, read, close 4 KiB", unit: .operations, needs: .smallFiles) { mounted in
        let buffer = UnsafeMutableRawPointer.allocate(byteCount: 4096, alignment: 8)
        defer { buffer.deallocate() }
        return try mounted.measure(files) {
          try each(mounted) { path in
            let descriptor = try Files.open(path, O_RDONLY)
            if read(descriptor, buffer, 4096) != 4096 { throw Problem.system(path) }
            close(descriptor)
          }
        }
      },
      Workload(name: "stat, first time", unit: .operations, needs: .smallFiles) { mounted in
        try mounted.measure(files) { try each(mounted, Files.status) }
      },
      Workload(name: "stat, known names", unit: .operations, needs: .smallFiles) { mounted in
        try each(mounted, Files.status)
        return try mounted.measure(files * 5) { for _ in 0..<5 { try each(mounted, Files.status) } }
      },
      Workload(name: "stat of names that are not there", unit: .operations, needs: .smallFiles) { mounted in
        var status = stat()
        return try mounted.measure(files) {
          try each(mounted) { path in
            if stat(path + ".not", &status) == 0 { throw Problem("\(path) is there") }
          }
        }
      },
      Workload(
        name: "create and unlink", unit: .operations, needs: .smallFiles, before: FreshDirectory.make,
        after: FreshDirectory.remove
      ) {
        mounted in
        try mounted.measure(files) {
          for index in 0..<files {
            let path = "\(mounted.root)/\(FreshDirectory.name)/\(Preparation.name(index))"
            try Files.create(path, [])
            try Files.mustSucceed(unlink(path), path)
          }
        }
      },
      Workload(
        name: "create many, unlink all", unit: .operations, needs: .smallFiles, before: FreshDirectory.make,
        after: FreshDirectory.remove
      ) {
        mounted in
        let paths = (0..<files).map { "\(mounted.root)/\(FreshDirectory.name)/\(Preparation.name($0))" }
        return try mounted.measure(files) {
          for path in paths { try Files.create(path, []) }
          for path in paths { try Files.mustSucceed(unlink(path), path) }
        }
      },
      Workload(
        name: "mkdir of a tree", unit: .operations, needs: .smallFiles, before: FreshDirectory.make,
        after: FreshDirectory.remove
      ) {
        mounted in
        try mounted.measure(files / 2) {
          var path = ""
          for index in 0..<files / 2 {
            path = index % 25 == 0 ? "\(mounted.root)/\(FreshDirectory.name)/\(index)" : "\(path)/d"
            try Files.mustSucceed(mkdir(path, 0o755), path)
          }
        }
      },
      Workload(name: "rename", unit: .operations, needs: .smallFiles) { mounted in
        try mounted.measure(files * 2) {
          try each(mounted) { path in
            try Files.mustSucceed(rename(path, path + ".renamed.jpg"), path)
            try Files.mustSucceed(rename(path + ".renamed.jpg", path), path)
          }
        }
      },
    ]
  }

  /// Listing a directory for the first time and again, in entries per second.
  static func listings(_ scale: Scale) -> [Workload] {
    scale.listings.flatMap { count in
      let preparation = Preparation.listing(count)
      let text = count % 1_000_000 == 0 ? "\(count / 1_000_000) million" : "\(count / 1000) 000"
      let repetitions = max(1, 200_000 / count)
      return [
        Workload(name: "first listing of \(text)", unit: .operations, needs: preparation) { mounted in
          try mounted.measure(count) { try list(mounted, preparation, count) }
        },
        Workload(name: "repeated listing of \(text)", unit: .operations, needs: preparation) { mounted in
          try list(mounted, preparation, count)
          return try mounted.measure(count * repetitions) {
            for _ in 0..<repetitions { try list(mounted, preparation, count) }
          }
        },
      ]
    }
  }

  private static func list(_ mounted: Mounted, _ preparation: Preparation, _ count: Int) throws {
    let found = try Listing.names("\(mounted.root)/\(preparation.name)") - 2
    if found != count { throw Problem("\(found) entries are listed instead of \(count)") }
  }
}
