import BackingTree
import DisplayNames
import Glibc

/// Distinguishes subvolumes, and file systems mounted in the directory, from the files of the directory's own file system.
extension DirectoryView {
  /// The file of an entry.
  ///
  /// - Parameter inode: the entry's inode number in the projection.
  func identity(_ slot: Projection.Slot, inode: UInt64) -> FileIdentity {
    let inPlace = FileIdentity(device: handle.identity.device, inode: inode)
    return state.mounted.isEmpty ? inPlace : state.mounted[slot] ?? inPlace
  }

  func noteMounted(_ found: stat, _ slot: Projection.Slot) {
    if handle.isMounted(found) {
      state.mounted[slot] = FileIdentity(found)
    } else if !state.mounted.isEmpty {
      state.mounted[slot] = nil
    }
  }

  /// Called when the directory was listed: a listing does not tell which entries these are.
  func inspectMounted() {
    if state.mounted.isEmpty && !hasSubvolumes { return }
    for slot in 0..<state.projection.slotLimit {
      guard let summary = state.projection.summary(at: slot),
        hasSubvolumes && summary.entryType == DT_DIR || state.mounted[slot] != nil,
        let found = CName(state.projection.realName(at: slot)).withPointer({ try? handle.status($0) })
      else { continue }
      noteMounted(found, slot)
    }
  }
}
