import Testing

@testable import Configuration

/// A document's tables as text, to compare them with.
private func text(_ table: TOMLTable) -> String {
  "{" + table.entries.map { "\($0.key)=\(text($0.value))" }.joined(separator: ",") + "}"
}

private func text(_ value: TOMLValue) -> String {
  switch value.content {
  case .string(let text): "\"\(text)\""
  case .integer(let number): "\(number)"
  case .float(let number): "\(number)"
  case .boolean(let value): "\(value)"
  case .time(let text): text
  case .array(let values): "[" + values.map { text($0) }.joined(separator: ",") + "]"
  case .table(let table): text(table)
  case .tables(let tables): "[" + tables.map { text($0) }.joined(separator: ",") + "]"
  }
}

private func read(_ document: String) -> String {
  do throws(TOMLError) { return text(try TOMLReader.read(Array(document.utf8))) } catch {
    return "\(error.offset): \(error.message)"
  }
}

@Suite struct TOMLTests {
  @Test(arguments: [
    ("", "{}"),
    ("# only a comment", "{}"),
    ("a = 1\r\nb = \"x\" # why\n", "{a=1,b=\"x\"}"),
    ("\u{FEFF}a = true", "{a=true}"),
    ("\"a b\" = 1\n'c' = 2\n3 = 4", "{a b=1,c=2,3=4}"),
    ("a.b.c = 1\na.b.d = 2", "{a={b={c=1,d=2}}}"),
    ("a . \"b\" = 1", "{a={b=1}}"),
    ("[a]\nx = 1\n[a.b]\ny = 2\n[c]", "{a={x=1,b={y=2}},c={}}"),
    ("[a.b]\nx = 1\n[a]\ny = 2", "{a={b={x=1},y=2}}"),
    (
      "[fruit]\napple.color = 1\n[fruit.apple.taste]\nsweet = true",
      "{fruit={apple={color=1,taste={sweet=true}}}}"
    ),
    ("[[r]]\na = 1\n[[r]]\na = 2\n[r.sub]\nb = 3", "{r=[{a=1},{a=2,sub={b=3}}]}"),
    ("a = [1, [2, 3],\n # and\n 4,]\n", "{a=[1,[2,3],4]}"),
    ("a = { b = 1, c.d = \"x\", e = {} }", "{a={b=1,c={d=\"x\"},e={}}}"),
    ("a = [ { b = 1 }, { b = 2 } ]", "{a=[{b=1},{b=2}]}"),
    ("a = \"\\t\\\"\\\\ \\u00e9 \\U0001F600\"", "{a=\"\t\"\\ é 😀\"}"),
    ("a = '\\no escape'", "{a=\"\\no escape\"}"),
    ("a = \"\"\"\nx\ny \"\" z\"\"\"", "{a=\"x\ny \"\" z\"}"),
    ("a = \"\"\"x\\\n   \n  y\"\"\"", "{a=\"xy\"}"),
    ("a = \"\"\"\"x\"\"\"\"\"", "{a=\"\"x\"\"\"}"),
    ("a = '''\nit's'''", "{a=\"it's\"}"),
    (
      "a = +1_000\nb = -17\nc = 0xdead_beef\nd = 0o17\ne = 0b101\nf = 0",
      "{a=1000,b=-17,c=3735928559,d=15,e=5,f=0}"
    ),
    ("a = 3.5\nb = -2e3\nc = 6.5e-1\nd = inf", "{a=3.5,b=-2000.0,c=0.65,d=inf}"),
    (
      "a = 1979-05-27T07:32:00Z\nb = 1979-05-27 07:32:00\nc = 07:32:00",
      "{a=1979-05-27T07:32:00Z,b=1979-05-27 07:32:00,c=07:32:00}"
    ),
  ])
  func validTOML_isParsed(_ document: String, _ expected: String) {
    #expect(read(document) == expected)
  }

  @Test(arguments: [
    ("a = ", 4, "value is expected"),
    ("a = x", 4, "quotation marks"),
    ("a 1", 2, "an = is missing"),
    ("= 1", 0, "a name is expected"),
    ("a = 1 b = 2", 6, "nothing more"),
    ("a = 1\na = 2", 6, "already defined above"),
    ("a = \"x", 4, "not closed"),
    ("a = \"x\ny\"", 4, "not closed"),
    ("a = \"\\x\"", 5, "escape"),
    ("a = \"\\ud800\"", 5, "hexadecimal"),
    ("a = \"\u{1}\"", 5, "control characters"),
    ("a = [1, 2", 9, "] is missing"),
    ("a = [1 2]", 7, "commas"),
    ("a = { b = 1", 11, "commas"),
    ("a = { b = 1,\n c = 2 }", 12, "name is expected"),
    ("[a", 2, "ends in ]"),
    ("[[a]", 4, "ends in ]]"),
    ("[a]\n[a]", 5, "already defined above"),
    ("a = 1\n[a]", 7, "something else"),
    ("a = [1]\n[[a]]", 10, "something else"),
    ("[[a]]\n[a]", 7, "something else"),
    ("a = { b = 1 }\n[a.c]", 15, "no table that can be added to"),
    ("[a.b]\n[a]\nb.c = 1", 10, "something else"),
    ("a.b = 1\n[a]", 9, "already defined above"),
    ("a = 01", 4, "no value"),
    ("a = 1__0", 4, "no value"),
    ("a = 1.", 4, "no value"),
    ("a = 0x-1", 4, "no value"),
    ("a = 99999999999999999999", 4, "no value"),
  ])
  func invalidTOML_isReportedWithOffset(_ document: String, _ offset: Int, _ says: String) {
    let outcome = read(document)
    #expect(outcome.hasPrefix("\(offset): "), "\(outcome)")
    #expect(outcome.contains(says), "\(outcome)")
  }

  @Test func nonUTF8Bytes_areRefused() throws {
    let error = #expect(throws: TOMLError.self) { try TOMLReader.read(Array("a = \"".utf8) + [0xff, 0x22]) }
    #expect(error?.offset == 5)
  }

  @Test func deepNesting_isRefused() {
    #expect(read("a = " + String(repeating: "[", count: 100_000)).contains("nested too deeply"))
    #expect(read("a = " + String(repeating: "{a=", count: 100_000)).contains("nested too deeply"))
    #expect(read(String(repeating: "a.", count: 100_000) + "a = 1").contains("too many parts"))
  }
}
