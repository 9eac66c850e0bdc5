import { expect, it } from "vitest";
import { csvOf } from "./csv";

it("quotes what needs it, ends lines as RFC 4180 has them, and runs no formula", () => {
  expect(csvOf(["name", "amount"], [['a "b", c', "-1.50"], ["=HYPERLINK(1)", "2"], ["two\nlines", ""]])).toBe(
    'name,amount\r\n"a ""b"", c",-1.50\r\n\'=HYPERLINK(1),2\r\n"two\nlines",\r\n',
  );
});
