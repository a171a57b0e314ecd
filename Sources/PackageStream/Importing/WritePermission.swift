import BackingTree
import Glibc

/// The users that a file's mode or access list (acl(5)) lets write to the file, other than its owner.
///
/// What is unpacked from a stream grants write permission to no other users. Read permission needs no such limit: no user reaches
/// a part of a package without search permission on the package's own directory. So the parts stay readable for the users to which
/// a program gives the package after it has closed it. (`gio copy` sets the mode of its copy then.)
public struct WritePermission: Sendable {
  /// The users that an entry of an access list is for. (`linux/posix_acl.h`)
  private enum Subject: Hashable {
    case owner
    case user(UInt32)
    case owningGroup
    case group(UInt32)
    /// The owning group and all named users and groups: no entry for these grants more than this one.
    case mask
    case others
  }

  private var named: [Subject: Bool] = [:]
  private var owningGroup: Bool
  private var others: Bool

  /// - Parameters:
  ///   - mode: the file's.
  ///   - list: the file's access list, in its extended attribute form.
  ///   - isSameGroup: whether what is unpacked belongs to the file's group.
  public init(mode: mode_t, accessList list: [UInt8]?, isSameGroup: Bool) {
    // Where there is a list, this bit of the mode is that of its mask.
    let mask = mode & S_IWGRP != 0
    (owningGroup, others) = (mask, mode & S_IWOTH != 0)
    let list = list ?? []
    for (subject, permissions) in Self.entries(of: list) {
      let isGranted = mask && list[permissions] & Self.write != 0
      switch subject {
      case .user, .group: named[subject] = isGranted && named[subject] ?? true
      case .owningGroup: owningGroup = isGranted
      default: break
      }
    }
    // The list of a part may lack a user that the file's list names.
    let isGrantedToNamed = named.values.allSatisfy { $0 }
    (owningGroup, others) = (owningGroup && isGrantedToNamed, others && isGrantedToNamed)
    if !isSameGroup { (owningGroup, others) = (owningGroup && others, owningGroup && others) }
  }

  private func isGranted(to subject: Subject) -> Bool {
    switch subject {
    case .owner: true
    case .owningGroup: owningGroup
    case .mask: owningGroup || named.values.contains(true)
    case .others: others
    case .user, .group: named[subject] ?? (owningGroup && others)
    }
  }

  /// A member with its mode and its access lists within these limits. The package's own directory loses its access list: it gets
  /// that of the file.
  func limiting(_ member: PaxMember) -> PaxMember {
    var member = member
    var groupBits = Subject.owningGroup
    for (index, attribute) in member.attributes.enumerated().reversed()
    where CarriedAttributes.isAccessList(attribute.name) {
      var list = attribute.value
      let isOwn = attribute.name.elementsEqual(AccessList.attribute.utf8)
      if isOwn { groupBits = .mask }
      for (subject, permissions) in Self.entries(of: list) {
        if !isGranted(to: subject) { list[permissions] &= ~Self.write }
        if isOwn, member.path.isEmpty, subject == .owningGroup {
          member.mode &= ~0o070 | UInt32(list[permissions]) << 3
        }
      }
      if isOwn, member.path.isEmpty {
        member.attributes.remove(at: index)
      } else {
        member.attributes[index] = PaxMember.Attribute(name: attribute.name, value: list)
      }
    }
    if !isGranted(to: groupBits) { member.mode &= ~UInt32(S_IWGRP) }
    if !isGranted(to: .others) { member.mode &= ~UInt32(S_IWOTH) }
    return member
  }

  // MARK: - The extended attribute form

  private static let write: UInt8 = 2

  /// The entries of a list, each with the index of the byte that holds its permissions. The tag is in the two bytes before, the
  /// number of the user or group in the four after. (`linux/posix_acl_xattr.h`)
  private static func entries(of list: [UInt8]) -> [(Subject, Int)] {
    AccessList.permissions(in: list.count).compactMap { permissions in
      let id = list[(permissions + 2)..<(permissions + 6)].reversed().reduce(0) { $0 << 8 | UInt32($1) }
      let subject: Subject? =
        switch list[permissions - 2] {
        case 0x01: .owner
        case 0x02: .user(id)
        case 0x04: .owningGroup
        case 0x08: .group(id)
        case 0x10: .mask
        case 0x20: .others
        default: nil
        }
      return subject.map { ($0, permissions) }
    }
  }
}
