/// The built-in tables of filename extensions, so that the view is the same on every machine.
public enum KnownExtensions {
  /// Document types whose extension is hidden in mode `hide`.
  ///
  /// A type is listed if a desktop recognises it without the extension, from the first bytes of the file. Deliberately left out:
  /// types recognised only by name (CSV, JSON, XML and all formats based on it, Markdown, and SVG, which desktops recognise only
  /// if nothing precedes its root element), files that programs and installers find by name (source, scripts, JAR, DEB), formats
  /// that begin with raw data (TGA, raw disk images other than `iso`, `img` or `dmg`), and extensions shared with source or text
  /// formats (`ts`, `dot`, `pot`, `pub`).
  public static let hideable = ExtensionSet(
    words: """
      png jpg jpeg jpe jfif gif bmp dib tif tiff webp heic heif avif jxl jp2 j2k jpf jpx jpm
      psd psb ico icns xcf exr dds pcx djvu djv wmf emf
      cr2 cr3 nef arw dng orf raf rw2 pef
      mp3 m4a m4b aac flac wav aif aiff aifc ogg oga opus wma mid midi amr ape wv mka caf au ac3 spx
      mp4 m4v mov qt avi mkv webm mpg mpeg mpe wmv asf flv ogv ogm 3gp 3g2 m2ts mts vob rm rmvb
      pdf ps eps epub mobi azw3 xps oxps chm dvi
      doc docx docm dotx xls xlsx xlsm xlsb xltx ppt pptx pptm pps ppsx potx
      odt ott ods ots odp otp odg otg odf odb sxw vsd vsdx pages numbers
      rtf html htm
      zip gz tgz bz2 tbz2 tbz xz txz zst tzst lz lzma tlz 7z rar tar cab cpio lha lzh arj ace sit
      ttf otf ttc woff woff2 pfb pfa dfont
      dmg iso img toast vhd vhdx vmdk vdi qcow2 sparseimage
      txt text
      """)

  /// Extensions that stand for a type, used by the double-extension rule and by mode `flag`. Contains every extension of
  /// ``hideable`` and of ``PackageTypes/builtIn``.
  ///
  /// Numbers and the suffixes of backup and unfinished files are not included: in `v1.2`, `libfoo.so.1` and `MyDocument.old` the
  /// suffix is part of the name and not a type.
  public static let known = hideable.union(executable).union(PackageTypes.builtIn.extensions).union(
    ExtensionSet(
      words: """
        apng svg svgz qoi cur tga hdr xbm xpm pbm pgm pnm ppm raw srw ai cdr indd sketch fig blend
        wave snd mp2 mpa m4r m4p mpc aax ra mod xm s3m it dts m3u m3u8 pls cue
        ts m2v dv f4v divx srt ass sub vtt swf
        csv tsv json jsonl ndjson json5 geojson yaml yml toml ini cfg conf properties plist strings
        xml xsl xslt xsd dtd rss atom gpx kml kmz opml xhtml mhtml mht shtml webarchive webloc url
        md markdown mdown rst adoc asciidoc org tex ltx bib cls sty texi log diff patch rtx
        dot pot potm ppsm xlt xlam csl sylk slk dif wks wpd wps pub mpp one key odc odi odm fodt fods fodp fodg
        gnumeric abw sxc sxi sxd stw azw fb2 lit prc cbz cbr cb7
        c h cc cpp cxx c++ hh hpp hxx m mm swift java kt kts scala groovy clj cljs edn go rs zig d nim v vala
        cs fs fsx vb pas pp inc asm s f f77 f90 f95 for ada adb ads ml mli hs lhs erl hrl ex exs elm lisp el
        lsp scm rkt r jl lua tcl sql graphql proto thrift php phtml js mjs cjs jsx tsx mts vue svelte css scss
        sass less coffee dart cu cl glsl hlsl vert frag metal wasm ipynb rmd nix tf hcl cmake mk mak am ac m4
        gradle bazel bzl ninja gyp podspec gemspec rake xcconfig pbxproj storyboard xib nib l y ll yy
        o a so dylib lib obj class pyc pyo pyd elc beam dll sys ko
        z xpi war ear aar whl gem nupkg crate sitx hqx bin ar lzo br zoo
        eot bdf pcf fon sfd woff
        db sqlite sqlite3 mdb accdb dbf parquet avro hdf5 h5 npy npz mat rds sav dta
        ics ical vcf vcard eml msg mbox pst emlx
        pem crt cer der p12 pfx csr asc sig gpg pgp kdbx torrent
        stl dae fbx gltf glb usdz usd 3ds ply dwg dxf step stp iges skp
        lnk theme service socket timer mount po mo qm ui qrc qml rc
        """))

  /// Extensions of files that start or install a program when opened, on macOS or Linux.
  static let executable = ExtensionSet(
    words: """
      app command tool sh bash zsh fish csh ksh ps1 py pyw rb pl scpt scptd applescript workflow terminal
      pkg mpkg desktop run appimage exe msi bat cmd com scr vbs jar deb rpm apk flatpakref flatpakrepo snap
      """)

  /// Extensions of application bundles.
  static let application = ExtensionSet(["app"])

  /// Whether `name` is a plain text build file that a tool requires under exactly this name.
  static func isBuildFile(_ name: Span<UInt8>) -> Bool {
    guard buildFileLengths.contains(name.count) else { return false }
    return buildFiles.contains { file in
      file.utf8CodeUnitCount == name.count
        && name.indices.allSatisfy { name[$0] == file.utf8Start[$0] }
    }
  }

  private static let buildFiles: [StaticString] = [
    "CMakeLists.txt", "CMakeCache.txt", "conanfile.txt", "constraints.txt", "meson_options.txt",
    "requirements.txt",
  ]
  private static let buildFileLengths = 13...17
}
