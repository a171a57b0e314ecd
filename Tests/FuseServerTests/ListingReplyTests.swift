import CFuse
import Testing

@Suite struct ListingReplyTests {
  @Test func entryWithAttributes_hasItsNameAtTheOffset() {
    let name = Array("notes.txt".utf8)
    var entry = fuse_entry_param()
    let size = dfs_plus_size(UInt32(name.count))
    var reply = [UInt8](repeating: 0xff, count: size)
    let used = reply.withUnsafeMutableBytes {
      dfs_add_entry_plus(nil, $0.baseAddress!, &entry, 1, name, UInt32(name.count))
    }
    #expect(used == size)
    #expect(reply[dfs_plus_name_offset...].prefix(name.count).elementsEqual(name))
  }
}
