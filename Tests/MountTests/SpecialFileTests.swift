import Glibc
import Testing

/// Pipes and devices with the names of files that the daemon reads by itself: opening one would act on it.
@Suite(.mounting) struct SpecialFileTests {
  /// Records every open of some files, except with O_PATH.
  private final class OpeningWatch {
    private let descriptor = inotify_init1(CInt(IN_NONBLOCK) | O_CLOEXEC)
    private var paths: [CInt: String] = [:]

    func add(_ path: String) {
      let watch = inotify_add_watch(descriptor, path, UInt32(IN_OPEN))
      #expect(watch >= 0, "\(path)")
      paths[watch] = path
    }

    /// The files that were opened since the last call.
    func opened() -> Set<String> {
      var found: Set<String> = []
      var buffer = [UInt8](repeating: 0, count: 65536)
      while true {
        let count = read(descriptor, &buffer, buffer.count)
        guard count > 0 else { return found }
        buffer.withUnsafeBytes { bytes in
          var offset = 0
          while offset < count {
            let event = bytes.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
            if let path = paths[event.wd] { found.insert(path) }
            offset += MemoryLayout<inotify_event>.size + Int(event.len)
          }
        }
      }
    }

    deinit { close(descriptor) }
  }

  /// Makes a null device if this user may, else a pipe.
  private static func makeSpecial(_ path: String) {
    makeDirectory(String(path[..<path.lastIndex(of: "/")!]))
    let null = dev_t(1 << 8 | 3)
    #expect(mknod(path, S_IFCHR | 0o666, null) == 0 || mkfifo(path, 0o666) == 0, "\(path)")
  }

  private static let metadata = [
    ".hidden", ".config/user-dirs.dirs", "Notes.localized/.localized/de.strings", "Folder/.directory", "tool.desktop",
    "Bad.app/Contents/Info.plist", "Applications/Bad.app/Contents/Info.plist",
    "Good.app/Contents/Resources/InfoPlist.loctable", "Good.app/Contents/Resources/de.lproj/InfoPlist.strings",
    "System/Library/CoreServices/SystemFolderLocalizations/de.lproj/SystemFolderLocalizations.strings",
    "._letter.pdf", ".AppleDouble/paper.pdf", "Folder/.AppleDouble/.Parent", ".displayfs-staging/left",
  ]

  @Test(arguments: ["profile=macos", "profile=home"])
  func metadataFiles_unlessRegular_areNotOpened(options: String) throws {
    let watch = OpeningWatch()
    let view = try MountedView("\(options),language=de,finder-info=on") { root in
      for path in ["letter.pdf", "paper.pdf", "Folder/file"] { try put("x", at: "\(root)/\(path)") }
      try TestTree.application("\(root)/Good.app", named: "Good")
      for path in Self.metadata {
        Self.makeSpecial("\(root)/\(path)")
        watch.add("\(root)/\(path)")
      }
    }
    view.shell("ls -lR; getfattr -d -m - *; mv letter brief; mv brief.pdf letter.pdf; rm -r Folder")
    #expect(watch.opened() == [])
    close(open(view.real(".hidden"), O_RDWR | O_NONBLOCK))
    #expect(watch.opened() == [view.real(".hidden")])
  }

  @Test func partOfPackage_replacedBySpecialFile_isNotOpened() throws {
    let watch = OpeningWatch()
    let view = try MountedView { root in
      // What is in the beginning of the stream is read when the package is opened.
      try put(String(repeating: "a", count: 8192), at: "\(root)/Letter.rtfd/TXT.rtf")
      try put("b", at: "\(root)/Letter.rtfd/photo.png")
      Self.makeSpecial("\(root)/special")
      watch.add("\(root)/special")
    }
    let stream = try OpenFile(view.at("Letter"))
    #expect(rename(view.real("special"), view.real("Letter.rtfd/photo.png")) == 0)
    #expect(stream.bytes(65536, at: 0) == nil)
    #expect(watch.opened() == [])
  }
}
