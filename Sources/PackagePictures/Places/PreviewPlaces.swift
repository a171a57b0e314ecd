/// Where documents carry previews of themselves.
enum PreviewPlaces {
  /// Directories and the names in them without extension, in lower case, most wanted first: of the applications that write for
  /// Quick Look (iWork '09, OmniGraffle, Pixelmator, earlier versions of Sketch), of iWork since 2013, of Sketch, and of Logic.
  static let known = [
    ("QuickLook", ["thumbnail", "preview", "icon"]), ("", ["preview", "preview-web", "preview-micro"]),
    ("previews", ["preview"]), ("Alternatives/000", ["windowimage"]),
  ]

  private static let extensions = [".jpg", ".jpeg", ".png", ".tif", ".tiff"]

  /// The previews among a directory's entries, in the order of `names`.
  static func files(_ names: [String], among entries: [String]) -> [String] {
    names.flatMap { name in
      entries.filter { entry in
        let folded = entry.lowercased()
        return Self.extensions.contains { folded == name + $0 }
      }.sorted()
    }
  }
}
