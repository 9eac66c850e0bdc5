import { expect, it } from "vitest";
import { PLACES, PLATFORM, isAt } from "./nav";

it("the menu marks one page wherever somebody is", () => {
  const marked = (location: string) => [...PLACES, ...PLATFORM].filter((place) => isAt(location, place)).map(({ title }) => title);
  for (const [location, title] of [
    ["/allocations/a", "Allocations"],
    ["/admin", "Platform overview"],
    ["/admin/nodes/n", "Nodes"],
    ["/admin/organisations/o", "Organisations"],
    ["/admin/projects/p", "Organisations"],
    ["/project", "Project"],
  ] as const)
    expect([location, marked(location)]).toEqual([location, [title]]);
  expect(marked("/admin/elsewhere")).toEqual([]);
});
