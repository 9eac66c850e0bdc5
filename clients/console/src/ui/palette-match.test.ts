import { expect, it } from "vitest";
import { type Command, matching } from "./palette-match";

const commands: Command[] = [
  { key: "1", title: "Allocations", kind: "Page" },
  { key: "2", title: "All reservations", kind: "Page" },
  { key: "3", title: "web-1", kind: "Allocation", also: "0193-abc" },
  { key: "4", title: "Dark theme", kind: "Setting" },
];
const found = (text: string) => matching(commands, text, 9).map(({ key }) => key);

it("every word must be found, names before the rest", () => {
  expect(found("alloc")).toEqual(["1", "3"]);
  expect(found("res")).toEqual(["2"]);
  expect(found("abc")).toEqual(["3"]);
  expect(found("page all")).toEqual(["1", "2"]);
  expect(found("nothing")).toEqual([]);
  expect(found("")).toEqual(["1", "2", "3", "4"]);
});
