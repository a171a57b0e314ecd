import Glibc

/// Files that workloads need in the backing tree.
enum Preparation: Hashable, Comparable, Sendable {
  case largeFiles, smallFiles, repository
  /// A directory of that many entries, each with an extension that the view hides.
  case listing(Int)

  /// The directory below the backing tree's root.
  var name: String {
    switch self {
    case .largeFiles: "large"
    case .smallFiles: "small"
    case .repository: "repository"
    case .listing(let count): "listing-\(count)"
    }
  }

  /// The real name of a numbered file, which resolves in every view.
  static func name(_ index: Int) -> String { "photo-\(String(1_000_000 + index).dropFirst()).jpg" }

  func make(in source: String, _ scale: Scale) throws {
    let path = "\(source)/\(name)"
    mkdir(path, 0o755)
    switch self {
    case .largeFiles:
      for job in 0..<4 { try Files.fill("\(path)/\(job)", megabytes: scale.megabytes) }
    case .smallFiles:
      let content = [UInt8](repeating: 0x78, count: 4096)
      for index in 0..<scale.files { try Files.create("\(path)/\(Self.name(index))", content) }
    case .listing(let count):
      for index in 0..<count { try Files.create("\(path)/\(Self.name(index))", []) }
    case .repository: try Repository.make(path, files: scale.repositoryFiles)
    }
  }
}

/// A large source tree with two branches, half of whose files differ. Its names are those of program source, which no view
/// changes.
enum Repository {
  private static let filesInDirectory = 40

  static func make(_ path: String, files: Int) throws {
    try Program.shell(
      "git init -q . && git config user.email bench@localhost && git config user.name bench", in: path)
    try writeFiles(path, 0..<files, version: 1)
    let sources = (0..<files).filter { $0 % filesInDirectory < 2 && $0 / filesInDirectory < 30 }
    let objects = sources.map { file($0).dropLast() + "o" }.joined(separator: " ")
    try write("all: \(objects)\n%.o: %.c\n\t$(CC) -c -o $@ $<\n", to: path + "/Makefile")
    try write("*.o\n", to: path + "/.gitignore")
    try Program.shell("git add . && git commit -qm one && git branch one && git checkout -qb two", in: path)
    try writeFiles(path, 0..<files / 2, version: 2)
    try Program.shell("git commit -qam two && git checkout -q one && git gc -q", in: path)
  }

  private static func file(_ index: Int) -> String { "part\(index / filesInDirectory)/unit\(index).c" }

  private static func writeFiles(_ path: String, _ files: Range<Int>, version: Int) throws {
    for index in files {
      if index % filesInDirectory == 0 { mkdir("\(path)/part\(index / filesInDirectory)", 0o755) }
      let line = "int function\(index)(int argument) { return argument * \(index) + \(version); }\n"
      let padding = String(
        repeating: "/* A comment, so that there is something to read. */\n", count: index % 50)
      try write(padding + line, to: "\(path)/\(file(index))")
    }
  }
}
