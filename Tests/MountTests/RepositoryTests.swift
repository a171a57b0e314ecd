import Testing

/// The documents of the repository name its files by paths that exist.
@Suite struct RepositoryTests {
  private static let documents = [
    "README.md", "Mount/README.md", "Sources/README.md", "Tests/README.md", ".github/CONTRIBUTING.md",
  ]
  private static let roots = ["Sources/", "Tests/", "Mount/", "man/", ".github/"]

  @Test(arguments: documents) func pathsInDocument_exist(document: String) throws {
    let content = try #require(text("\(repository)/\(document)"))
    let words = content.split { !($0.isLetter || $0.isNumber || "_./@+*-".contains($0)) }
    for word in words where Self.roots.contains(where: word.hasPrefix) && !word.contains("*") {
      let path = word.last == "." ? word.dropLast() : word
      #expect(isThere("\(repository)/\(path)"), "\(path)")
    }
  }

  @Test(arguments: documents) func linksInDocument_leadToFiles(document: String) throws {
    let content = try #require(text("\(repository)/\(document)"))
    let directory = "\(repository)/\(document)".split(separator: "/").dropLast().reduce("") { "\($0)/\($1)" }
    for rest in content.split(separator: "](").dropFirst() where !rest.hasPrefix("http") {
      let target = rest.prefix { $0 != ")" && $0 != "#" }
      #expect(isThere("\(directory)/\(target)"), "\(target)")
    }
  }

  /// Also those that are named without a path.
  @Test(arguments: documents) func sourceFilesInDocument_exist(document: String) throws {
    let content = try #require(text("\(repository)/\(document)"))
    let files = Shell.run("find Sources Tests Package.swift -type f -printf '%f\\n'", in: repository).names
    for word in content.split(whereSeparator: { !($0.isLetter || $0.isNumber || "_.+*".contains($0)) }) {
      guard word.hasSuffix(".swift") || word.hasSuffix(".c"), !word.contains("*"), word.first != "." else {
        continue
      }
      #expect(files.contains(FileName(String(word))), "\(word)")
    }
  }

  @Test func scriptsInTable_exist() throws {
    let content = try #require(text("\(repository)/Mount/README.md"))
    for row in content.split(separator: "\n") where row.hasPrefix("| `") {
      let script = row.dropFirst(3).prefix { $0.isLetter || $0 == "-" }
      #expect(isThere("\(repository)/Mount/\(script)"), "\(script)")
    }
  }
}
