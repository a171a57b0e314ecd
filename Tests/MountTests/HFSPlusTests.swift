import Glibc
import Testing

/// A volume of HFS+, which stores names decomposed. Only a kernel with hfsplus mounts it: `Mount/kernels --filter HFSPlusTests`.
@Suite(.mounting, .asRoot) struct HFSPlusTests {
  /// Makes a volume with `Résumé.txt` and `Calc.app`, and mounts it for as long as this lives.
  private final class Volume {
    let directory: TemporaryDirectory
    var root: String { directory.path("volume") }

    /// Nil where the kernel has no hfsplus, or the machine no xorriso.
    init?() throws {
      directory = try TemporaryDirectory()
      // The image begins with an ISO 9660 volume. The signature of HFS+ is at 1024 of its own.
      let outcome = Shell.run(
        """
        set -e
        modprobe hfsplus 2>/dev/null || true
        grep -qw hfsplus /proc/filesystems && command -v xorriso >/dev/null || exit 77
        mkdir -p files/Calc.app/Contents/Resources volume
        printf text >files/"$(printf 'R\\303\\251sum\\303\\251.txt')"
        echo '<plist><dict></dict></plist>' >files/Calc.app/Contents/Info.plist
        printf icon >files/Calc.app/Contents/Resources/Calc.icns
        xorriso -as mkisofs -quiet -hfsplus -V Mac -o image files
        start=$(($(grep -obUa -m1 'H+' image | head -n1 | cut -d: -f1) - 1024))
        mount -t hfsplus -o "loop,ro,nodecompose,offset=$start" image volume
        """, in: directory.root)
      if outcome.status == 77 { return nil }
      if outcome.status != 0 { throw MountedView.MountFailure(description: outcome.complaint) }
    }

    deinit { umount2(root, CInt(MNT_DETACH)) }
  }

  private static let hasHFSPlus = (try? Volume()) ?? nil != nil

  @Test(.enabled(if: hasHFSPlus, "The kernel has no hfsplus.")) func namesOfVolume_areComposedAndOpenByBothForms() throws {
    let volume = try #require(try Volume())
    #expect(names(volume.root) == ["Calc.app", "Re\u{301}sume\u{301}.txt"])
    let place = try TemporaryDirectory()
    let mounted = Displayfs.run(["mount", "-o", "language=en,matching=caseless", volume.root, place.root])
    #expect(mounted.status == 0, "\(mounted.complaint)")
    defer { _ = Displayfs.run(["unmount", place.root]) }
    #expect(names(place.root) == ["Calc", "R\u{e9}sum\u{e9}"])
    for name in ["R\u{e9}sum\u{e9}", "R\u{e9}sum\u{e9}.txt", "Re\u{301}sume\u{301}.txt", "R\u{c9}SUM\u{c9}.TXT"] {
      #expect(text(place.path(name)) == "text", "\(name)")
    }
    #expect(text(place.path("Calc.app/Contents/resources/calc.ICNS")) == "icon")
  }
}
