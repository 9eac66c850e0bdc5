import { expect, it } from "vitest";
import { parseCast } from "./asciicast";

it("a recording is read with pauses cut short and a torn end left out", () => {
  const text = ['{"version":3,"term":{"cols":100,"rows":30}}', "# a comment", '[0.5, "o", "$ "]', '[90, "o", "ls\\r\\n"]', '[0.25, "r", "120x40"]', '[1, "m", "mark"]', '[0.1, "o", "tor'].join("\n");
  expect(parseCast(text)).toEqual({
    cols: 100,
    rows: 30,
    length: 3.75,
    events: [
      { at: 0.5, kind: "o", data: "$ " },
      { at: 2.5, kind: "o", data: "ls\r\n" },
      { at: 2.75, kind: "r", data: "120x40" },
    ],
  });
});

it("other text is no recording", () => {
  for (const text of ["", "{}", '{"version":2}', "hello"]) expect(parseCast(text)).toBeUndefined();
});
