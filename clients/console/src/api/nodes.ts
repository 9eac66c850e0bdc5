/** Queries of the node pages. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { useHistory } from "./history";
import { SHOWN } from "./pages";
import { Problem } from "./problem";
import type { Allocation, InventoryNode, Slot } from "./types";

const LIVE_MS = 1000;
const CALM_MS = 10_000;

const detail = (allocation_id: string) => ({
  queryKey: ["admin-allocation", allocation_id],
  queryFn: () => unwrap(client.GET("/api/v1/admin/allocations/{allocation_id}", { params: { path: { allocation_id } } })),
  refetchInterval: CALM_MS,
});

/** An allocation of any project with its claims, the calls to its host and its timeline. */
export function useAllocationDetail(allocation_id: string) {
  return useQuery(detail(allocation_id));
}

/** Ledger, host and hypervisor of a node, as they were when it was asked: the host is called for it. */
export function useNodeComparison(node_id: string) {
  return useQuery({
    queryKey: ["node-comparison", node_id],
    queryFn: () => unwrap(client.GET("/api/v1/admin/nodes/{node_id}/comparison", { params: { path: { node_id } } })),
    staleTime: CALM_MS,
  });
}

/** Allocations of any project by id, as an administrator sees them; without those that are not loaded yet. */
export function useAdminAllocations(ids: string[]): Map<string, Allocation> {
  const found = useQueries({ queries: ids.map(detail) });
  return new Map(found.flatMap(({ data }) => (data?.allocation ? [[data.allocation.id ?? "", data.allocation] as const] : [])));
}

/** The latest wipe of a slot outside of a release; `null` when there was none. */
export function useSlotRepair(node_id: string, slot_id: string, wanted: boolean) {
  return useQuery({
    queryKey: ["slot-repair", slot_id],
    enabled: wanted,
    queryFn: () =>
      unwrap(client.GET("/api/v1/admin/nodes/{node_id}/resource-slots/{slot_id}/repair", { params: { path: { node_id, slot_id } } })).catch((error: unknown) => {
        if (error instanceof Problem && error.status === 404) return null;
        throw error;
      }),
    refetchInterval: LIVE_MS,
  });
}

/** The latest report of validate-host that is attached to a node; `null`: none is. */
export function useHostReport(node_id: string) {
  return useQuery({
    queryKey: ["host-report", node_id],
    queryFn: () => unwrap(client.GET("/api/v1/admin/nodes/{node_id}/host-reports", { params: { path: { node_id } } })).then(({ reports = [] }) => reports[0] ?? null),
  });
}

/** What became of a node, the newest first, page by page. */
export function useNodeHistory(node_id: string) {
  return useHistory(
    ["node-history", node_id],
    (page_token) => unwrap(client.GET("/api/v1/admin/nodes/{node_id}/history", { params: { path: { node_id }, query: { page_size: SHOWN, page_token } } })).then(({ entries: items = [], next_page_token: next }) => ({ items, next })),
    { interval: CALM_MS },
  );
}

/** What became of a slot, the newest first, page by page; while `wanted`. */
export function useSlotHistory(node_id: string, slot_id: string, wanted: boolean) {
  return useHistory(
    ["slot-history", slot_id],
    (page_token) => unwrap(client.GET("/api/v1/admin/nodes/{node_id}/resource-slots/{slot_id}/history", { params: { path: { node_id, slot_id }, query: { page_size: SHOWN, page_token } } })).then(({ entries: items = [], next_page_token: next }) => ({ items, next })),
    { wanted, interval: CALM_MS },
  );
}

/** Break-fix records of a node, the newest first. */
export function useBreakFixes(node_id: string) {
  return useQuery({
    queryKey: ["break-fixes", node_id],
    queryFn: () => unwrap(client.GET("/api/v1/admin/nodes/{node_id}/break-fixes", { params: { path: { node_id } } })).then(({ break_fixes = [] }) => break_fixes),
    refetchInterval: CALM_MS,
  });
}

/** Open findings of health agents. */
export function useFindings(node_id: string) {
  return useQuery({
    queryKey: ["findings", node_id],
    queryFn: () => unwrap(client.GET("/api/v1/admin/nodes/{node_id}/findings", { params: { path: { node_id } } })).then(({ findings = [] }) => findings),
    refetchInterval: CALM_MS,
  });
}

/** Takes a slot out of service or back into it, or wipes its disk and makes it schedulable again. */
export function changeSlot({ node_id = "", id: slot_id = "" }: Slot, verb: "disable" | "enable" | "repair", reason?: string): Promise<unknown> {
  return unwrap(client.POST(`/api/v1/admin/nodes/{node_id}/resource-slots/{slot_id}:${verb}`, { params: { path: { node_id, slot_id } }, body: reason === undefined ? {} : { reason } }));
}

/** Has a host inspected for slots; changes nothing on it. */
export function discover(node_id: string) {
  return unwrap(client.POST("/api/v1/admin/nodes/{node_id}/slice-topology/discovery", { params: { path: { node_id } }, body: {} }));
}

/** Makes slots of candidates of the latest discovery, of all that are named or of none. */
export function approveSlots(node_id: string, body: { discovery_id: string; slot_indexes: number[]; choices?: { slot_index: number }[] }) {
  return unwrap(client.POST("/api/v1/admin/nodes/{node_id}/resource-slots:approve", { params: { path: { node_id } }, body }));
}

/** Deletes a node that was registered by mistake. */
export function deleteNode({ id: node_id = "", etag }: InventoryNode, reason: string) {
  return unwrap(client.DELETE("/api/v1/admin/nodes/{node_id}", { params: { path: { node_id }, query: { reason, etag } } }));
}
