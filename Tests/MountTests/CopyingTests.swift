import Testing

/// Putting another file in the place of a document through its display name.
@Suite(.mounting) struct CopyingTests {
  @Test(arguments: [
    ProgramRun("cat >", "cat \"$WORK/$FILE\" >\"$FILE\""),
    ProgramRun("cp", "cp \"$WORK/$FILE\" ."),
    ProgramRun("cp -p", "cp -p \"$WORK/$FILE\" ."),
    ProgramRun("cp -b", "cp -b \"$WORK/$FILE\" .", backup: "report~"),
    ProgramRun("cp -f --backup=numbered", "cp -f --backup=numbered \"$WORK/$FILE\" .", backup: "report.~1~"),
    ProgramRun("cp --remove-destination", "cp --remove-destination \"$WORK/$FILE\" ."),
    ProgramRun("mv from another file system", "cp -p \"$WORK/$FILE\" /dev/shm/$$; mv /dev/shm/$$ \"$FILE\""),
    ProgramRun("mv", "cp -p \"$WORK/$FILE\" .new; mv .new \"$FILE\""),
    ProgramRun("mv -b", "cp -p \"$WORK/$FILE\" .new; mv -b .new \"$FILE\"", backup: "report~"),
    ProgramRun("mv from a directory", "mkdir new; cp -p \"$WORK/$FILE\" new; mv new/* .; rmdir new"),
    ProgramRun(
      "mv away and back",
      "mkdir Sub; mv \"$FILE\" Sub; cat \"$WORK/$FILE\" >\"Sub/$FILE\"; mv Sub/* .; rmdir Sub"),
    ProgramRun("install", "install -m 604 \"$WORK/$FILE\" ."),
    ProgramRun("install -b", "install -b -m 604 \"$WORK/$FILE\" .", backup: "report~"),
    ProgramRun("dd", "dd if=\"$WORK/$FILE\" of=\"$FILE\" conv=fsync status=none"),
  ])
  func coreutils_replaceFilesAsInPlainDirectory(_ run: ProgramRun) throws { try run.expectNoDifference() }

  @Test(
    .needing("rsync"),
    arguments: [
      ProgramRun("rsync", "rsync \"$WORK/$FILE\" ."),
      ProgramRun("rsync -a", "rsync -a \"$WORK/$FILE\" ."),
      ProgramRun("rsync -ab", "rsync -ab \"$WORK/$FILE\" .", backup: "report~"),
      ProgramRun("rsync -a --inplace", "rsync -a --inplace \"$WORK/$FILE\" ."),
      ProgramRun("rsync -a --delay-updates", "rsync -a --delay-updates \"$WORK/$FILE\" ."),
    ])
  func rsync_replacesFilesAsInPlainDirectory(_ run: ProgramRun) throws { try run.expectNoDifference() }

  /// Of the directory's whole listing: nothing of it is taken for something that the source has not got.
  @Test(.needing("rsync"))
  func rsyncDelete_fromMirrorOfView_worksAsInPlainDirectory() throws {
    let there = "mkdir \"$WORK/mirror\"; rsync -a --exclude='.*' ./ \"$WORK/mirror\""
    let change = "cp \"$WORK/$FILE\" \"$WORK/mirror/$(ls)\""
    try ProgramRun(
      "rsync --delete", "\(there); \(change); rsync -a --delete --exclude='.*' \"$WORK/mirror/\" ."
    )
    .expectNoDifference()
  }

  @Test(
    .needing("tar", "zip", "unzip"),
    arguments: [
      ProgramRun("tar -x", "tar -C \"$WORK\" -cf \"$WORK/a.tar\" \"$FILE\"; tar -xf \"$WORK/a.tar\""),
      ProgramRun(
        "tar -x --overwrite",
        "tar -C \"$WORK\" -cf \"$WORK/a.tar\" \"$FILE\"; tar --overwrite -xf \"$WORK/a.tar\""),
      ProgramRun("tar -x -U", "tar -C \"$WORK\" -cf \"$WORK/a.tar\" \"$FILE\"; tar -U -xf \"$WORK/a.tar\""),
      ProgramRun(
        "tar --backup", "tar -C \"$WORK\" -cf \"$WORK/a.tar\" \"$FILE\"; tar --backup -xf \"$WORK/a.tar\"",
        backup: "report~"),
      ProgramRun("unzip -o", "(cd \"$WORK\"; zip -qX a.zip \"$FILE\"); unzip -oq \"$WORK/a.zip\""),
    ])
  func archivers_replaceFilesAsInPlainDirectory(_ run: ProgramRun) throws { try run.expectNoDifference() }

  /// Tools that put an extension on a name that has none still find what they wrote.
  @Test(
    .needing("zip"),
    arguments: [
      ProgramRun(
        "zip", "cat \"$WORK/$FILE\" >\"$FILE\"; touch -d 2003-01-01 \"$FILE\"; zip -qX kit.zip \"$FILE\""),
      ProgramRun("zip -u", "\(kit); zip -quX kit.zip \"$FILE\""),
      ProgramRun("zip -u without the extension", "\(kit); zip -quX kit \"$FILE\""),
      ProgramRun(
        "zip -d", "\(kit); touch -d 2003-01-01 .x; zip -quX kit \"$FILE\" .x; zip -qd kit .x; rm .x"),
    ])
  func zip_findsItsArchiveAsInPlainDirectory(_ run: ProgramRun) throws { try run.expectNoDifference() }

  private static let kit = """
    zip -qX kit.zip "$FILE"; cat "$WORK/$FILE" >"$FILE"; touch -d 2003-01-01 "$FILE"
    """
}
