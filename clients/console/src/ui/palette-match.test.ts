import { expect, it } from "vitest";
import { type Command, allocationCommand, matching, projectCommands } from "./palette-match";

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

it("an allocation is called by its display name, and found by both names", () => {
  const one = [allocationCommand({ id: "a", display_name: "Run seven", config: { name: "web-7" } })];
  for (const text of ["seven", "web-7"]) expect(matching(one, text, 9).map(({ title }) => title)).toEqual(["Run seven"]);
});

it("projects of one slug are told apart by their organisations, and found by slug and organisation", () => {
  const all = projectCommands([{ id: "1", slug: "dev", organisation: "acme" }, { id: "2", slug: "dev", organisation: "globex" }, { id: "3", slug: "ml", organisation: "acme" }]);
  expect(matching(all, "dev", 9).map(({ title }) => title)).toEqual(["acme/dev", "globex/dev"]);
  expect(matching(all, "globex", 9).map(({ id }) => id)).toEqual(["2"]);
  expect(matching(all, "ml", 9).map(({ title }) => title)).toEqual(["ml"]);
});
