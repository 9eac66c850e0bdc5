import { describe, expect, it } from "vitest";
import { MOST_LINES, NO_LOG, type Part, matching, shownLines, withParts } from "./serial-log";

function part(offset: number, text: string, print_time = "t"): Part {
  return { offset: String(offset), print_time, data: btoa(String.fromCharCode(...new TextEncoder().encode(text))) };
}
const texts = (...parts: Part[]) => shownLines(withParts(NO_LOG, parts)).map(({ text }) => text);

describe("a serial log", () => {
  it("has whole lines wherever parts are cut, also inside a letter", () => {
    const bytes = [...new TextEncoder().encode("Grüße\nlogin: ")];
    for (let cut = 1; cut < bytes.length; cut++) {
      const piece = (from: number, to: number): Part => ({ offset: String(from), data: btoa(String.fromCharCode(...bytes.slice(from, to))) });
      expect(texts(piece(0, cut), piece(cut, bytes.length))).toEqual(["Grüße", "login: "]);
    }
  });

  it("controls nothing", () => {
    expect(texts(part(0, "\u001b[1;32m[  OK  ]\u001b[0m\r\n\u001b]0;title\u0007a\tb\u0000\u001bc\u009b31m\n"))).toEqual(["[  OK  ]", "a\tb31m"]);
  });

  it("has the time of a line's beginning", () => {
    const log = withParts(withParts(NO_LOG, [part(0, "one\ntw", "1")]), [part(6, "o\nthree", "2")]);
    expect(shownLines(log)).toEqual([{ text: "one", time: "1" }, { text: "two", time: "1" }, { text: "three", time: "2" }]);
  });

  it("says where something is missing, and keeps no more than a view can show", () => {
    expect(texts(part(0, "a\n"), part(9, "b\n"))).toEqual(["a", "[A part of the log is missing: it is no longer retained.]", "b"]);
    expect(texts(part(5, "a\n"))).toEqual(["a"]);
    const many = texts(part(0, "x\n".repeat(MOST_LINES) + "last\n"));
    expect([many.length, many.at(-1)]).toEqual([MOST_LINES, "last"]);
  });

  it("is searched in upper and lower case", () => {
    const lines = shownLines(withParts(NO_LOG, [part(0, "Kernel panic\nok\n")]));
    expect(matching(lines, "KERNEL").map(({ text }) => text)).toEqual(["Kernel panic"]);
    expect(matching(lines, "")).toHaveLength(2);
  });
});
