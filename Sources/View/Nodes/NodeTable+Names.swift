import BackingTree

/// What becomes of the names of nodes when files are renamed and removed, and under which names the kernel knows a node.
extension NodeTable {
  /// Handles a rename: moves the node from one place to another. Its other names stay.
  ///
  /// - Returns: the kinds of names under which the kernel may know the node.
  @discardableResult
  public func moved(
    _ identity: FileIdentity, facet: Facet, from old: (parent: NodeID, name: CName),
    to new: (parent: NodeID, name: CName)
  ) -> AliasKinds {
    locked { links in
      guard let found = links.inodes.find(Inodes.Key(identity, facet)), found != 1 else { return [] }
      old.name.withPointer { oldName in
        new.name.withPointer { newName in
          let (old, new) = (Links.Place(old.parent, oldName), Links.Place(new.parent, newName))
          if links.inodes[found].type == .directory || links.isPlaced(found, old) {
            links.setPlace(found, new)
          } else {
            links.removeOther(of: found, old)
            links.addPlace(found, new)
            links.changeAliases(of: found) { $0.isKept = true }
          }
        }
      }
      return links[found].aliases.given
    }
  }

  /// Called when the kernel has moved its dentry of a file from the old name to a new one, and has no other dentry of the file
  /// there.
  func renamed(_ identity: FileIdentity, facet: Facet, byRealName: Bool) {
    locked { links in
      guard let found = links.inodes.find(Inodes.Key(identity, facet)) else { return }
      links.changeAliases(of: found) { $0.give(byRealName: byRealName, isOnly: !$0.wasLinked) }
    }
  }

  /// Called after a package was moved by its display name: the kernel moved the file's dentry, and does not know that the
  /// package's directory moved too. It still has the directory at the old place, and it refuses (ESTALE) to have one directory
  /// at two places while a rename is under way. So a lookup of the directory at its new place gets another node, and so does a
  /// lookup of any directory below it. A process that works in one of these directories keeps its old node.
  public func movedUnseen(_ identity: FileIdentity) {
    locked { links in
      guard let found = links.inodes.find(Inodes.Key(identity, .plain)), found != 1 else { return }
      links.supersede(found)
    }
  }

  /// Handles the removal of a name: a file with further known links is reached by one of them from now on.
  ///
  /// - Parameter isLast: whether it was the file's last name. Open files keep their node; a new file that gets the same inode
  ///   number will have another node.
  /// - Returns: the kinds of names under which the kernel may know the node.
  @discardableResult
  public func removed(
    _ identity: FileIdentity, facet: Facet, from parent: NodeID, name: UnsafePointer<CChar>, isLast: Bool
  ) -> AliasKinds {
    locked { links in
      guard let found = links.inodes.find(Inodes.Key(identity, facet)), found != 1 else { return [] }
      let place = Links.Place(parent, name)
      // A node that was looked up at another place since then is there: the inode number may belong to another file by now.
      if !links.isPlaced(found, place) {
        links.removeOther(of: found, place)
      } else if isLast {
        links.detach(found)
      } else {
        links.leavePlace(found)
      }
      return links[found].aliases.given
    }
  }

  /// The other names under which a node was seen and the kernel may cache it.
  func otherKeptPlaces(of id: NodeID) -> [(parent: NodeID, name: CName)] {
    locked { $0.others(of: UInt32(id)).filter(\.isKept).map { (NodeID($0.parent), $0.name) } }
  }

  /// Removes a place at which a node was seen before.
  func leftOtherPlace(_ id: NodeID, _ parent: NodeID, _ name: CName) {
    locked { links in name.withPointer { links.removeOther(of: UInt32(id), Links.Place(parent, $0)) } }
  }

  /// The kinds of names under which the kernel may know a node.
  func aliases(of id: NodeID) -> AliasKinds {
    locked { links in links.inodes.slot(of: id).map { links[$0].aliases.given } ?? [] }
  }

  /// Whether the kernel may know a file by its display name. It may know more than one file at that place, where the node of
  /// one was superseded.
  func isGivenByDisplayName(
    _ identity: FileIdentity, facet: Facet, at parent: NodeID, _ name: UnsafePointer<CChar>
  ) -> Bool {
    locked { links in
      func isGiven(_ slot: UInt32) -> Bool { links[slot].aliases.given.contains(.display) }
      let place = Links.Place(parent, name)
      return links.find(place) { links.inodes[$0].facet == facet && isGiven($0) } != nil
        || links.inodes.find(Inodes.Key(identity, facet)).map(isGiven) ?? false
    }
  }
}
