import CLinux
import Glibc
import SystemPackage
import Testing

@Suite(.mounting) struct FileKindTests {
  private func view() throws -> MountedView {
    try MountedView { root in try put("0123456789", at: "\(root)/notes.txt") }
  }

  @Test func namedPipe_connectsProcesses() throws {
    let view = try view()
    #expect(view.shell("mkfifo pipe && { echo through >pipe & cat pipe; }").text == "through")
    #expect(view.shell("echo direct >\"$SOURCE/pipe\" & timeout 5 cat \"$SOURCE/pipe\"").text == "direct")
    #expect(status(view.real("pipe")).map { $0.st_mode & S_IFMT } == S_IFIFO)
  }

  @Test func unixSocket_connectsProcesses() throws {
    let view = try view()
    let script = """
      python3 -c '
      import socket, threading
      server = socket.socket(socket.AF_UNIX)
      server.bind("socket"); server.listen()
      client = socket.socket(socket.AF_UNIX)
      client.connect("socket"); client.send(b"through")
      print(server.accept()[0].recv(10).decode())'
      """
    let outcome = view.shell(script)
    #expect(outcome.text == "through", "\(outcome.errorText)")
    #expect(status(view.real("socket")).map { $0.st_mode & S_IFMT } == S_IFSOCK)
  }

  @Test(.asRoot) func device_keepsItsNumber() throws {
    let view = try view()
    let number = dev_t(1 << 8 | 3)
    #expect(failure { mknod(view.at("null"), S_IFCHR | 0o666, number) } == nil)
    #expect(status(view.real("null"))?.st_rdev == number)
    #expect(status(view.at("null"))?.st_rdev == number)
  }

  @Test func mknod_makesRegularFile() throws {
    let view = try view()
    #expect(failure { mknod(view.at("plain"), S_IFREG | 0o640, 0) } == nil)
    #expect(status(view.real("plain"))?.isRegular == true)
    #expect(failure { mknod(view.at("notes"), S_IFREG | 0o640, 0) } == .fileExists)
  }

  @Test func symlink_keepsItsTarget() throws {
    let view = try view()
    let long = String(repeating: "x/", count: 2000)
    for target in ["notes", "../elsewhere", "/etc/hostname", long] {
      #expect(failure { symlink(target, view.at("link")) } == nil)
      var buffer = [UInt8](repeating: 0, count: 8192)
      let count = readlink(view.at("link"), &buffer, buffer.count)
      #expect(String(decoding: buffer.prefix(max(0, count)), as: UTF8.self) == target)
      #expect(status(view.at("link"))?.st_size == target.utf8.count)
      #expect(unlink(view.at("link")) == 0)
    }
  }

  @Test func hardLinks_areOneFile() throws {
    let view = try view()
    #expect(mkdir(view.at("Folder"), 0o755) == 0)
    #expect(failure { link(view.at("notes"), view.at("Folder/second")) } == nil)
    #expect(view.realListing("Folder") == ["second.txt"])
    let (first, second) = (
      try #require(status(view.at("notes"))), try #require(status(view.at("Folder/second")))
    )
    #expect(first.st_ino == second.st_ino && first.st_nlink == 2 && second.st_nlink == 2)
    let file = try OpenFile(view.at("notes"), O_RDWR)
    #expect(file.write("X", at: 0) == 1)
    #expect(text(view.at("Folder/second")) == "X123456789")
    #expect(unlink(view.at("notes")) == 0)
    #expect(status(view.at("Folder/second"))?.st_nlink == 1)
    #expect(file.write("Y", at: 1) == 1)
    #expect(text(view.at("Folder/second")) == "XY23456789")
  }

  @Test func times_areKeptToTheNanosecond() throws {
    let view = try view()
    let times = [
      timespec(tv_sec: 1_234_567_890, tv_nsec: 123_456_789), timespec(tv_sec: -86_400, tv_nsec: 987_654_321),
    ]
    #expect(failure { utimensat(AT_FDCWD, view.at("notes"), times, 0) } == nil)
    for path in [view.at("notes"), view.real("notes.txt")] {
      let found = try #require(status(path))
      #expect(found.st_atim.tv_sec == 1_234_567_890 && found.st_atim.tv_nsec == 123_456_789)
      #expect(found.st_mtim.tv_sec == -86_400 && found.st_mtim.tv_nsec == 987_654_321)
    }
    symlink("notes", view.at("link"))
    #expect(failure { utimensat(AT_FDCWD, view.at("link"), times, CInt(AT_SYMLINK_NOFOLLOW)) } == nil)
    #expect(status(view.real("link"))?.st_mtim.tv_sec == -86_400)
    let omit = [timespec(tv_sec: 0, tv_nsec: (1 << 30) - 2), timespec(tv_sec: 5, tv_nsec: 6)]
    #expect(failure { utimensat(AT_FDCWD, view.at("notes"), omit, 0) } == nil)
    #expect(status(view.real("notes.txt"))?.st_atim.tv_sec == 1_234_567_890)
    #expect(status(view.real("notes.txt"))?.st_mtim.tv_sec == 5)
  }

  @Test func attributes_areThoseOfBackingFile() throws {
    let view = try view()
    let format = "stat -c '%a %b %B %f %g %h %i %s %u %x %y %z'"
    #expect(view.shell("\(format) notes").text == view.shell("\(format) \"$SOURCE/notes.txt\"").text)
  }

  @Test func write_updatesModificationTime() throws {
    let view = try view()
    let past = [timespec(tv_sec: 1000, tv_nsec: 0), timespec(tv_sec: 1000, tv_nsec: 0)]
    #expect(utimensat(AT_FDCWD, view.at("notes"), past, 0) == 0)
    let file = try OpenFile(view.at("notes"), O_RDWR)
    #expect(file.status.st_mtim.tv_sec == 1000)
    file.write("new", at: 0)
    #expect(file.status.st_mtim.tv_sec > 1_000_000)
    #expect(status(view.at("notes"))?.st_mtim.tv_sec == status(view.real("notes.txt"))?.st_mtim.tv_sec)
  }

  @Test(.extendedAttributes) func extendedAttributes_areKept() throws {
    let view = try view()
    let path = view.at("notes")
    try #require(setAttribute("user.probe", to: [1], of: view.real("notes.txt")) == nil)
    let value = (0..<1000).map { UInt8(truncatingIfNeeded: $0) }
    #expect(setAttribute("user.tag", to: value, of: path) == nil)
    #expect(attributeBytes("user.tag", of: view.real("notes.txt")) == value)
    #expect(attributeBytes("user.tag", of: view.at("notes.txt")) == value)
    var list = [CChar](repeating: 0, count: 4096)
    let count = listxattr(path, &list, list.count)
    let names = Set(
      list.prefix(max(0, count)).split(separator: 0).map { FileName($0.map { UInt8(bitPattern: $0) }) })
    #expect(names.isSuperset(of: ["user.probe", "user.tag"]))
    #expect(listxattr(path, nil, 0) == count)
    #expect(failure { CInt(truncatingIfNeeded: getxattr(path, "user.tag", &list, 10)) } == .outOfRange)
    #expect(getxattr(path, "user.tag", nil, 0) == 1000)
    #expect(failure { setxattr(path, "user.tag", "x", 1, 1 /* XATTR_CREATE */) } == .fileExists)
    #expect(failure { setxattr(path, "user.none", "x", 1, 2 /* XATTR_REPLACE */) } == .noData)
    #expect(failure { removexattr(path, "user.none") } == .noData)
    #expect(failure { removexattr(path, "user.tag") } == nil)
    #expect(attributeBytes("user.tag", of: path) == nil)
  }

  /// The format of stat(1) that prints all fields but the inode number, and the birth time last; it requests STATX_BTIME.
  private static let allFields = "'%a %F %u %g %h %s %b %B %t:%T %x %y %z %w'"

  @Test(.birthTimes, arguments: ["notes", "notes.txt", ".", "folder", "link", "pipe"])
  func birthTime_isThatOfBackingFile(name: String) throws {
    let view = try MountedView { root in
      try put("0123456789", at: "\(root)/notes.txt")
      #expect(Shell.run("mkdir folder && ln -s notes.txt link && mkfifo pipe", in: root).status == 0)
    }
    let real = view.real(name == "notes" ? "notes.txt" : name)
    let expected = Shell.run("stat -c \(Self.allFields) '\(real)'").text
    #expect(!expected.hasSuffix(" -"))
    #expect(view.shell("stat -c \(Self.allFields) \(name)").text == expected)
    // After a change behind the view, which the kernel must not have cached past.
    #expect(Shell.run("chmod 700 '\(real)' && touch -h -d @1000000000.123456789 '\(real)'").status == 0)
    let changed = Shell.run("stat -c \(Self.allFields) '\(real)'").text
    #expect(changed != expected)
    #expect(view.shell("stat -c \(Self.allFields) \(name)").text == changed)
  }

  @Test(.birthTimes) func birthTime_ofPackageFile_isThatOfItsDirectory() throws {
    let view = try MountedView { root in
      #expect(Shell.run("mkdir Letter.rtfd && echo x >Letter.rtfd/TXT.rtf", in: root).status == 0)
    }
    let real = Shell.run("stat -c %w '\(view.real("Letter.rtfd"))'").text
    #expect(view.shell("stat -c '%F %w' Letter").text == "regular file \(real)")
  }

  @Test(.birthTimes) func birthTime_ofRemovedOpenFile_staysKnown() throws {
    let view = try view()
    let script = "exec 3<notes; stat -c %w notes; rm notes; stat -L -c %w /proc/self/fd/3"
    let shown = view.shell(script).text.split(separator: "\n")
    #expect(shown.count == 2 && shown[0] == shown[1] && shown[0] != "-", "\(shown)")
  }

}
