import Testing

/// git in a repository that has its working tree and its own files in the view.
@Suite(.mounting, .needing("git")) struct GitTests {
  /// Every run makes the same commits: author, date and branch are fixed.
  private static let start = """
    export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=Anna GIT_AUTHOR_EMAIL=anna@example.org \
      GIT_COMMITTER_NAME=Anna GIT_COMMITTER_EMAIL=anna@example.org \
      GIT_AUTHOR_DATE=2003-01-01T00:00:00Z GIT_COMMITTER_DATE=2003-01-01T00:00:00Z
    git config --global safe.directory '*'; git config --global init.defaultBranch main
    git config --global pack.threads 1; git config --global core.fsync none
    git init -q; git add "$FILE"; git commit -qm old
    """
  private static let change = "cat \"$WORK/$FILE\" >\"$FILE\""
  /// The index has inode numbers and times of every run.
  private static let clean = "test -z \"$(git status --porcelain)\"; git fsck --strict --full; rm .git/index"

  private static let runs = [
    ProgramRun("commit", "\(start); \(change); git commit -qam new; \(clean)"),
    ProgramRun(
      "checkout of another branch",
      "\(start); git checkout -qb other; \(change); git commit -qam new; git checkout -q main; grep -q old \"$FILE\"; "
        + "git checkout -q other; \(clean)"),
    ProgramRun(
      "merge",
      "\(start); git checkout -qb other; \(change); git commit -qam new; git checkout -q main; git merge -q other; \(clean)"
    ),
    ProgramRun(
      "stash",
      "\(start); \(change); git stash -q; grep -q old \"$FILE\"; git stash pop -q; git commit -qam new; \(clean)"
    ),
    ProgramRun(
      "restore",
      "\(start); \(change); git commit -qam new; echo x >\"$FILE\"; git restore \"$FILE\"; \(clean)"),
    ProgramRun(
      "reset",
      "\(start); \(change); git commit -qam new; git reset -q --hard HEAD^; git reset -q --hard HEAD@{1}; \(clean)"
    ),
    ProgramRun(
      "gc", "\(start); \(change); git commit -qam new; git gc -q --prune=now; git repack -qad; \(clean)"),
    ProgramRun(
      "rebase",
      "\(start); git checkout -qb other; \(change); git commit -qam new; git checkout -q main; "
        + "git commit -q --allow-empty -m more; git checkout -q other; git rebase -q main; \(clean)"),
  ]

  /// By display names only: git adds nothing that it does not find in a listing.
  @Test(arguments: runs) func git_worksAsInPlainDirectory(_ run: ProgramRun) throws {
    try run.expectNoDifferenceByDisplayName()
  }
}
