import { expect, it } from "vitest";
import type { Allocation } from "./types";
import { foldAllocation, foldAllocations, foldFleet, later, nodesOf, slotsOf } from "./watches";

const allocation = (id: string, revision: number, state: "provisioning" | "active" | "released" = "active"): Allocation => ({ id, status: { state }, metadata: { revision: String(revision) } });

it("the later state wins, whichever came first", () => {
  expect(later(allocation("a", 9), allocation("a", 10)).metadata?.revision).toBe("10");
  expect(later(allocation("a", 10), allocation("a", 9)).metadata?.revision).toBe("10");
  expect(later(undefined, allocation("a", 1)).id).toBe("a");
});

it("allocations are added, changed, and stay when they end", () => {
  const before = {};
  const first = foldAllocations(before, [{ change: { kind: "added", allocation: allocation("a", 1, "provisioning") } }, { change: { kind: "added", allocation: allocation("b", 1) } }, { synced: {} }]);
  const second = foldAllocations(first, [{ change: { kind: "modified", allocation: allocation("a", 2) } }, { change: { kind: "ended", allocation: allocation("b", 2, "released") } }]);
  expect(Object.values(second).map(({ id, status }) => [id, status?.state])).toEqual([["a", "active"], ["b", "released"]]);
  expect(first.a?.status?.state).toBe("provisioning");
  expect(before).toEqual({});
});

it("entries of the timeline appear once each, in their newest state and in order", () => {
  const entry = (sequence: number, state: "running" | "done") => ({ sequence: String(sequence), state });
  const first = foldAllocation({ allocation: undefined, entries: [] }, [{ change: { allocation: allocation("a", 1) } }, { entry: entry(2, "running") }, { entry: entry(1, "done") }]);
  const second = foldAllocation(first, [{ entry: entry(10, "running") }, { entry: entry(2, "done") }, { entry: entry(2, "done") }]);
  expect(second.entries.map(({ sequence, state }) => `${sequence} ${state}`)).toEqual(["1 done", "2 done", "10 running"]);
  expect(second.allocation?.id).toBe("a");
});

it("h_04_nodes_and_their_slots_are_kept_as_they_are_now", () => {
  const node = (id: string, hostname: string, schedulable: boolean) => ({ id, config: { hostname }, status: { schedulable } });
  const slot = (id: string, node_id: string, slot_index: number) => ({ id, node_id, slot_index });
  const first = foldFleet({ nodes: {}, slots: {} }, [
    { node: { kind: "added", node: node("2", "zeta", true) } },
    { node: { kind: "added", node: node("1", "alpha", true) } },
    { slot: { kind: "added", slot: slot("s1", "1", 1) } },
    { slot: { kind: "added", slot: slot("s0", "1", 0) } },
    { slot: { kind: "added", slot: slot("t0", "2", 0) } },
  ]);
  const second = foldFleet(first, [{ node: { kind: "modified", node: node("1", "alpha", false) } }, { slot: { kind: "ended", slot: slot("s1", "1", 1) } }]);
  expect(nodesOf(second).map(({ config, status }) => [config?.hostname, status?.schedulable])).toEqual([["alpha", false], ["zeta", true]]);
  expect(slotsOf(second, "1").map(({ id }) => id)).toEqual(["s0"]);
  expect(slotsOf(first, "1").map(({ id }) => id)).toEqual(["s0", "s1"]);
});
