import BackingTree

/// What becomes of the names of nodes when files are renamed and removed, and under which names the kernel knows a node.
extension NodeTable {
  /// Handles a rename: moves the node from one link to another. Its other names stay.
  ///
  /// - Returns: the kinds of names under which the kernel may know the node.
  @discardableResult
  package func didMove(
    _ identity: FileIdentity, nodeKind: NodeKind, from old: (parent: NodeID, name: CName),
    to new: (parent: NodeID, name: CName)
  ) -> AliasKinds {
    withState { links in
      guard let found = links.inodes.find(Inodes.Key(identity, nodeKind)), found != 1,
        found != new.parent.slot
      else { return [] }
      old.name.withPointer { oldName in
        new.name.withPointer { newName in
          let (old, new) = (Links.LinkKey(old.parent, oldName), Links.LinkKey(new.parent, newName))
          if links.inodes[found].type == .directory || links.isLinked(found, old) {
            links.setLink(found, new)
          } else {
            links.removeOther(of: found, old)
            links.addLink(found, new)
            links.changeAliases(of: found) { $0.isEntryCacheable = true }
          }
        }
      }
      return links[found].aliases.kinds
    }
  }

  /// Called when the kernel has moved its dentry of a file from the old name to a new one, and has no other dentry of the file
  /// there.
  func didRenameDentry(_ identity: FileIdentity, nodeKind: NodeKind, byRealName: Bool) {
    withState { links in
      guard let found = links.inodes.find(Inodes.Key(identity, nodeKind)) else { return }
      links.changeAliases(of: found) { $0.addAlias(byRealName: byRealName, isOnly: !$0.hadSeveralLinks) }
    }
  }

  /// Called after a package was moved by its display name: the kernel moved the file's dentry, and does not know that the
  /// package's directory moved too. It still has the directory at the old place, and it refuses (ESTALE) to have one directory
  /// at two places while a rename is under way. So a lookup of the directory at its new place gets another node, and so does a
  /// lookup of any directory below it. A process that works in one of these directories keeps its old node.
  ///
  /// In an exported view a directory has one node in any case: its nodeid is that of its file handles.
  package func didMoveBehindKernel(_ identity: FileIdentity) {
    withState { links in
      guard !links.inodes.isExported, let found = links.inodes.find(Inodes.Key(identity, .plain)), found != 1
      else {
        return
      }
      links.unindex(found)
    }
  }

  /// Handles the removal of a name: a file with further known links is reached by one of them from now on.
  ///
  /// - Parameter isLast: whether it was the file's last name. Open files keep their node; a new file that gets the same inode
  ///   number will have another node.
  /// - Returns: the kinds of names under which the kernel may know the node.
  @discardableResult
  package func didRemove(
    _ identity: FileIdentity, nodeKind: NodeKind, from parent: NodeID, name: UnsafePointer<CChar>,
    isLast: Bool
  ) -> AliasKinds {
    withState { links in
      guard let found = links.inodes.find(Inodes.Key(identity, nodeKind)), found != 1 else { return [] }
      let linkKey = Links.LinkKey(parent, name)
      // A node that was looked up under another link since then is there: the inode number may belong to another file by now.
      if !links.isLinked(found, linkKey) {
        links.removeOther(of: found, linkKey)
      } else if isLast {
        links.orphan(found)
      } else {
        links.leaveLink(found)
      }
      return links[found].aliases.kinds
    }
  }

  /// Handles the removal of all names of a node's file.
  ///
  /// - Parameter identity: that of the file: the number may be another node's by now.
  func orphan(_ id: NodeID, of identity: FileIdentity) {
    withState { links in
      guard let slot = links.inodes.slot(of: id), slot != 1, links.inodes[slot].identity == identity,
        links.inodes[slot].indexState == .current
      else { return }
      links.orphan(slot)
    }
  }

  /// The links under which a node was seen, but for the one in use.
  func otherLinks(of id: NodeID) -> [Links.Other] { withState { $0.others(of: id.slot) } }

  /// Puts another link of a node into use, in place of the one that is.
  func leaveLink(of id: NodeID, for other: Links.Other) {
    withState { links in
      if let slot = links.inodes.slot(of: id) { links.leaveLink(slot, for: other) }
    }
  }

  /// Records that a directory is not where it was seen last.
  ///
  /// - Parameter parent: where that was: it may have been looked up at another place since.
  func dropLink(of id: NodeID, in parent: NodeID) {
    withState { links in
      guard let slot = links.inodes.slot(of: id), slot != 1, links[slot].parent == parent.slot else { return }
      links.dropLink(slot)
    }
  }

  /// The directory that a node is recorded in, also if the node has lost that place; nil if it is not known to be anywhere.
  func lastParent(of id: NodeID) -> NodeID? {
    withState { links in
      links.inodes.slot(of: id).map { links[$0].parent }.flatMap { $0 == Links.nowhere ? nil : NodeID($0) }
    }
  }

  /// Removes a link under which a node was seen before.
  func removeOtherLink(_ id: NodeID, _ parent: NodeID, _ name: CName) {
    withState { links in name.withPointer { links.removeOther(of: id.slot, Links.LinkKey(parent, $0)) } }
  }

  /// The kinds of names under which the kernel may know a node.
  func aliases(of id: NodeID) -> AliasKinds {
    withState { links in links.inodes.slot(of: id).map { links[$0].aliases.kinds } ?? [] }
  }

  /// Whether the kernel may know a file by its display name. It may know more than one file under that link, where the node of
  /// one was removed from the index.
  func mayBeKnownByDisplayName(
    _ identity: FileIdentity, nodeKind: NodeKind, at parent: NodeID, _ name: UnsafePointer<CChar>
  ) -> Bool {
    withState { links in
      links.find(Links.LinkKey(parent, name), nodeKind) { $0.aliases.kinds.contains(.display) } != nil
        || links.inodes.find(Inodes.Key(identity, nodeKind)).map {
          links[$0].aliases.kinds.contains(.display)
        } ?? false
    }
  }
}
