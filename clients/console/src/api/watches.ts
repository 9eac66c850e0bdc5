/** What can be watched, and how its messages become a state. */
import type { components } from "@gpuaas/sdk";
import type { QueryClient } from "@tanstack/react-query";
import { useProjectMay } from "../session/roles";
import { useSession } from "../session/session";
import { type Kept, type Source, type Watched, useWatch, watchKey } from "../watch/use-watch";
import type { Allocation, InventoryNode, Slot, TimelineEntry } from "./types";

type Schemas = components["schemas"];
type AllocationsMessage = Schemas["allocation.WatchAllocationsResponse"];
type AllocationMessage = Schemas["allocation.WatchAllocationResponse"];
type NodesMessage = Schemas["inventory.WatchNodesResponse"];

export type ById<T> = Record<string, T>;

export interface OneAllocation {
  allocation: Allocation | undefined;
  /** By sequence, oldest first. */
  entries: TimelineEntry[];
}

export interface Fleet {
  nodes: ById<InventoryNode>;
  slots: ById<Slot>;
}

/** The later one of two states of an allocation: an answer and a watch may overtake each other. */
export function later(a: Allocation | undefined, b: Allocation): Allocation {
  return a && BigInt(a.metadata?.revision ?? 0) > BigInt(b.metadata?.revision ?? 0) ? a : b;
}

/** One that has ended stays, with its last state. */
export function foldAllocations(state: ById<Allocation>, batch: AllocationsMessage[]): ById<Allocation> {
  const next = { ...state };
  for (const { change } of batch) {
    const { allocation } = change ?? {};
    if (allocation?.id) next[allocation.id] = later(next[allocation.id], allocation);
  }
  return next;
}

export function foldAllocation(state: OneAllocation, batch: AllocationMessage[]): OneAllocation {
  let { allocation } = state;
  const entries = new Map(state.entries.map((entry) => [entry.sequence, entry]));
  for (const { change, entry } of batch) {
    if (change?.allocation) allocation = later(allocation, change.allocation);
    if (entry) entries.set(entry.sequence, entry);
  }
  const order = (a: TimelineEntry, b: TimelineEntry) => Number(a.sequence ?? 0) - Number(b.sequence ?? 0);
  return { allocation, entries: [...entries.values()].sort(order) };
}

export function foldFleet(state: Fleet, batch: NodesMessage[]): Fleet {
  const next = { nodes: { ...state.nodes }, slots: { ...state.slots } };
  for (const { node, slot } of batch) {
    if (node?.node?.id) put(next.nodes, node.node.id, node.node, node.kind === "ended");
    if (slot?.slot?.id) put(next.slots, slot.slot.id, slot.slot, slot.kind === "ended");
  }
  return next;
}

function put<T>(into: ById<T>, id: string, value: T, gone: boolean): void {
  if (gone) delete into[id];
  else into[id] = value;
}

/** By hostname. */
export function nodesOf({ nodes }: Fleet): InventoryNode[] {
  return Object.values(nodes).sort((a, b) => (a.config?.hostname ?? "").localeCompare(b.config?.hostname ?? ""));
}

/** A node's slots by their index. */
export function slotsOf({ slots }: Fleet, node_id: string): Slot[] {
  return Object.values(slots)
    .filter((slot) => slot.node_id === node_id)
    .sort((a, b) => (a.slot_index ?? 0) - (b.slot_index ?? 0));
}

const allocationsOf = (project_id: string) => ({ path: "/api/v1/allocations:watch", params: { query: { project_id } } }) as const;
const allocationOf = (allocation_id: string) => ({ path: "/api/v1/allocations/{allocation_id}:watch", params: { path: { allocation_id } } }) as const;

const NO_ALLOCATIONS: ById<Allocation> = {};
const NO_ALLOCATION: OneAllocation = { allocation: undefined, entries: [] };
const NO_FLEET: Fleet = { nodes: {}, slots: {} };
const FLEET: Source<"/api/v1/admin/nodes:watch", Fleet> = { path: "/api/v1/admin/nodes:watch", params: {}, empty: NO_FLEET, fold: foldFleet };

/** The project's allocations that have not ended, and those that end meanwhile; nothing for who may not read them. */
export function useAllocationsWatch(): Watched<ById<Allocation>> {
  const project = useSession()?.project ?? "";
  return useWatch({ ...allocationsOf(project), empty: NO_ALLOCATIONS, fold: foldAllocations }, useProjectMay("read"));
}

/** One allocation and everything that happened to it. */
export function useAllocationWatch(id: string): Watched<OneAllocation> {
  return useWatch({ ...allocationOf(id), empty: NO_ALLOCATION, fold: foldAllocation });
}

/** All hosts and their slots. */
export function useFleetWatch(): Watched<Fleet> {
  return useWatch(FLEET);
}

/** Shows the answer of a call before the watch delivers it. */
export function learn(queries: QueryClient, allocation: Allocation): void {
  const id = allocation.id ?? "";
  queries.setQueryData<Kept<OneAllocation>>(watchKey(allocationOf(id)), (kept) => kept && { ...kept, view: { ...kept.view, allocation: later(kept.view.allocation, allocation) } });
}
