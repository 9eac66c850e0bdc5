import { expect, it } from "vitest";
import type { InventoryNode } from "../../api/types";
import { blockedBy, placedOf, underWay, workMatches } from "./work";

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

it("a search is over name, project and node", () => {
  const one = { config: { name: "web-1", sku: "h200" }, status: { state: "active" as const } };
  const has = (search: string, state = "") => workMatches(["vision", "host-7"], one, { search, state });
  expect([has("web vision"), has("host-7 h200"), has("db"), has("", "active"), has("", "releasing")]).toEqual([true, true, false, true, false]);
});
