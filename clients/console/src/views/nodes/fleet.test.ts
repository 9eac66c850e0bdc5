import { expect, it } from "vitest";
import type { InventoryNode, NodePlacement } from "../../api/types";
import { filtered, healthOf, healthParts } from "./fleet";

const node = (id: string, status: InventoryNode["status"], region_code = "a", mode = "slice"): InventoryNode => ({ id, config: { hostname: `host-${id}`, region_code, mode }, status });
const nodes = [
  node("1", { state: "enrolled", schedulable: true }),
  node("2", { state: "enrolled", schedulable: true }, "b"),
  node("3", { state: "enrolled", schedulable: false, blockers: ["nat: no masquerade rule"] }),
  node("4", { state: "lost", schedulable: false }),
  node("5", { state: "pending" }, "b", "baremetal"),
];
const placements = new Map<string, NodePlacement>([
  ["2", { admin_state: "draining" }],
  ["3", { admin_state: "cordoned" }],
]);
const all = { search: "", region: "", mode: "", health: "" };
const ids = (filter: Partial<typeof all>) => filtered(nodes, placements, { ...all, ...filter }).map(({ id }) => id).join("");

it("h_04_each_node_counts_once_in_the_health_of_the_fleet", () => {
  expect(nodes.map((one) => healthOf(one, placements.get(one.id ?? "")))).toEqual(["schedulable", "out_of_service", "blocked", "lost", "waiting"]);
  const parts = healthParts(nodes, placements);
  expect(parts.reduce((sum, { value }) => sum + value, 0)).toBe(nodes.length);
});

it("h_04_nodes_are_found_by_name_blocker_region_mode_and_health", () => {
  expect(ids({})).toBe("12345");
  expect(ids({ search: "HOST-3" })).toBe("3");
  expect(ids({ search: "masquerade nat" })).toBe("3");
  expect(ids({ region: "b" })).toBe("25");
  expect(ids({ region: "b", mode: "slice" })).toBe("2");
  expect(ids({ health: "lost" })).toBe("4");
  expect(ids({ search: "nothing like it" })).toBe("");
});
