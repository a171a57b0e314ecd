/// The uniform type identifiers that macOS declares for types of files. ("Uniform Type Identifiers Reference", System-Declared
/// Uniform Type Identifiers, and the UniformTypeIdentifiers framework)
enum UniformTypes {
  /// The identifier of a MIME type; for an unknown one that of its kind, as `public.image`; nil where it has none.
  static func identifier(ofMIMEType type: String) -> String? {
    identifiers[type] ?? kinds[String(type.prefix { $0 != "/" })]
  }

  private static let kinds = [
    "text": "public.text", "image": "public.image", "audio": "public.audio", "video": "public.movie",
    "font": "public.font", "message": "public.message",
  ]

  private static let identifiers: [String: String] = {
    var table: [String: String] = [:]
    for line in lines.split(separator: "\n") {
      let words = line.split(separator: " ").map(String.init)
      for type in words.dropFirst() { table[type] = words[0] }
    }
    return table
  }()

  private static let lines = """
    public.plain-text text/plain
    public.html text/html application/xhtml+xml
    public.xml text/xml application/xml
    public.css text/css
    public.json application/json
    public.yaml application/yaml application/x-yaml
    net.daringfireball.markdown text/markdown
    public.rtf text/rtf application/rtf
    public.comma-separated-values-text text/csv
    public.tab-separated-values-text text/tab-separated-values
    public.log text/x-log
    public.vcard text/vcard
    com.apple.ical.ics text/calendar
    public.script text/x-script
    public.shell-script application/x-shellscript
    public.python-script text/x-python text/x-python3
    public.perl-script application/x-perl
    public.ruby-script application/x-ruby
    public.php-script application/x-php
    com.netscape.javascript-source text/javascript application/javascript
    public.swift-source text/x-swift
    public.c-source text/x-csrc
    public.c-header text/x-chdr
    public.c-plus-plus-source text/x-c++src
    public.c-plus-plus-header text/x-c++hdr
    public.objective-c-source text/x-objcsrc
    com.sun.java-source text/x-java
    public.make-source text/x-makefile
    public.patch-file text/x-patch
    com.adobe.pdf application/pdf
    com.adobe.postscript application/postscript
    com.adobe.encapsulated-postscript image/x-eps
    org.idpf.epub-container application/epub+zip
    public.png image/png
    public.jpeg image/jpeg
    public.jpeg-2000 image/jp2
    com.compuserve.gif image/gif
    public.tiff image/tiff
    public.heic image/heif image/heic
    public.avif image/avif
    org.webmproject.webp image/webp
    com.microsoft.bmp image/bmp
    com.microsoft.ico image/vnd.microsoft.icon
    com.apple.icns image/x-icns
    public.svg-image image/svg+xml
    com.adobe.photoshop-image image/vnd.adobe.photoshop
    com.adobe.raw-image image/x-adobe-dng
    public.mp3 audio/mpeg
    public.mpeg-4-audio audio/mp4
    com.microsoft.waveform-audio audio/x-wav audio/vnd.wave
    public.aiff-audio audio/x-aiff
    org.xiph.flac audio/flac
    public.midi-audio audio/midi
    public.mpeg-4 video/mp4
    public.mpeg video/mpeg
    com.apple.quicktime-movie video/quicktime
    public.avi video/x-msvideo video/vnd.avi
    public.3gpp video/3gpp
    public.zip-archive application/zip
    org.gnu.gnu-zip-archive application/gzip
    public.bzip2-archive application/x-bzip application/x-bzip2 application/bzip2
    org.tukaani.xz-archive application/x-xz
    public.tar-archive application/x-tar
    org.gnu.gnu-zip-tar-archive application/x-compressed-tar
    org.7-zip.7-zip-archive application/x-7z-compressed
    com.rarlab.rar-archive application/vnd.rar application/x-rar
    public.iso-image application/vnd.efi.iso application/x-cd-image
    com.apple.disk-image-udif application/x-apple-diskimage
    com.apple.installer-package-archive application/x-xar
    com.microsoft.word.doc application/msword
    org.openxmlformats.wordprocessingml.document application/vnd.openxmlformats-officedocument.wordprocessingml.document
    com.microsoft.excel.xls application/vnd.ms-excel
    org.openxmlformats.spreadsheetml.sheet application/vnd.openxmlformats-officedocument.spreadsheetml.sheet
    com.microsoft.powerpoint.ppt application/vnd.ms-powerpoint
    org.openxmlformats.presentationml.presentation application/vnd.openxmlformats-officedocument.presentationml.presentation
    org.oasis-open.opendocument.text application/vnd.oasis.opendocument.text
    org.oasis-open.opendocument.spreadsheet application/vnd.oasis.opendocument.spreadsheet
    org.oasis-open.opendocument.presentation application/vnd.oasis.opendocument.presentation
    com.apple.iwork.pages.sffpages application/vnd.apple.pages
    com.apple.iwork.numbers.sffnumbers application/vnd.apple.numbers
    com.apple.iwork.keynote.sffkey application/vnd.apple.keynote
    com.apple.property-list application/x-plist
    com.microsoft.windows-executable application/x-ms-dos-executable application/vnd.microsoft.portable-executable
    public.opentype-font font/otf
    public.truetype-ttf-font font/ttf
    public.truetype-collection-font font/collection
    org.w3.woff font/woff
    com.apple.mail.email message/rfc822
    """
}
