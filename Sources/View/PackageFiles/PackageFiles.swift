import BackingTree

/// What the view keeps for packages that it shows as files.
struct PackageFiles: Sendable {
  /// Whether a written stream is imported, so that it becomes a package.
  let areImported: Bool
  /// Whether a view beneath this one imports packages. Two views would import the same file.
  let areImportedBeneath: Bool
  let sizes = PackageSizes()
  let staging: Staging
  let imported = ImportedStreams()
  let ownApplications = OwnApplications()

  init(in source: DirectoryHandle, imports: Bool) {
    areImportedBeneath =
      ExtendedAttributes(of: source.directory.descriptor).value(View.importsAttribute, limit: 8)
      == Array("true".utf8)
    areImported = imports && !areImportedBeneath
    staging = Staging(in: source)
  }
}
