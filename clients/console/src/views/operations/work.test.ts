import { expect, it } from "vitest";
import type { InventoryNode } from "../../api/types";
import { UNDER_WAY, allocationsFilter, blockedBy, placedOf, underWay } from "./work";

const node = (id: string, status: InventoryNode["status"]): InventoryNode => ({ id, status });

it("an allocation with several slots is one", () => {
  const placed = placedOf([{ allocation_id: "a", node_id: "n" }, { allocation_id: "a", node_id: "n" }, { node_id: "n" }]);
  expect([...placed]).toEqual([["a", "n"]]);
});

it("blocked nodes are counted by reason, the most frequent first", () => {
  const nodes = [node("1", { state: "enrolled", blockers: ["hugepages"] }), node("2", { state: "enrolled", blockers: ["hugepages", "disk"] }), node("3", { state: "lost" }), node("4", { state: "enrolled", schedulable: true })];
  const found = blockedBy(nodes, ({ id }) => (id === "4" ? "cordoned" : undefined));
  expect(found.map(({ reason, nodes: of }) => [reason, of.length])).toEqual([
    ["hugepages", 2],
    ["cordoned", 1],
    ["disk", 1],
    ["its reports have stopped", 1],
  ]);
});

it("work with the nearest deadline comes first", () => {
  const later = { id: "l", status: { state: "provisioning" as const, deadline: "2026-01-02T00:00:00Z" } };
  const sooner = { id: "s", status: { state: "active" as const, power: "rebooting" as const, deadline: "2026-01-01T00:00:00Z" } };
  const calm = { id: "c", status: { state: "active" as const, power: "running" as const } };
  expect(underWay([later, calm, sooner]).map(({ id }) => id)).toEqual(["s", "l"]);
});

it("the server is asked for all that work is going on with, however old, and for nothing that has ended", () => {
  expect(UNDER_WAY).toBe("(state = reserved OR state = provisioning OR state = releasing OR power = stopping OR power = starting OR power = rebooting OR power = rescuing OR power = unrescuing) AND NOT state = released AND NOT state = failed");
});

it("a search is over name, SKU, image, person, project and node, by the server", () => {
  const nodes = [{ id: "n7", config: { hostname: "host-7" } }, { id: "n8", config: { hostname: "gpu-8" } }];
  const filter = (search: string) => allocationsFilter(search, [{ id: "p", slug: "vision" }], nodes).filter;
  expect(filter("")).toBe("");
  const texts = (word: string) => ["name", "display_name", "sku", "image", "creator"].map((field) => `${field}:"${word}"`).join(" OR ");
  expect(filter("web Vision")).toBe(`(${texts("web")}) AND (${texts("Vision")} OR project_id = p)`);
  expect(filter("HOST")).toBe(`(${texts("HOST")} OR node_id = n7)`);
  const id = "01930001-0000-7000-8000-000000000001";
  expect(filter(id)).toContain(`OR id = ${id} OR project_id = ${id} OR node_id = ${id})`);
  const many = (of: string) => Array.from({ length: 30 }, (_, number) => `${of}${number}`);
  const { filter: some, cut } = allocationsFilter("gpu", many("p").map((one) => ({ id: one, slug: "gpu" })), many("n").map((one) => ({ id: one, config: { hostname: "gpu" } })));
  expect([some.match(/project_id/g)?.length, some.match(/node_id/g)?.length, cut]).toEqual([14, 13, "Only the first 27 of 60 projects and nodes with “gpu” in their name are searched. Choose one with the filters."]);
});
