/** Allocations of all projects, as operators see and change them. */
import type { components } from "@gpuaas/sdk";
import { type QueryClient, useInfiniteQuery, useMutation, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { nameOf } from "../lib/allocation-name";
import { client, unwrap } from "./client";
import { WHOLE, everyPage, usePages } from "./pages";
import type { AllocationState } from "./types";

export type TenantAllocation = components["schemas"]["allocation.TenantAllocation"];

/** What narrows the list; empty: all. `filter` is one of the API. */
export interface TenantFilter {
  project_id: string;
  node_id: string;
  state: string;
  include_ended: boolean;
  filter: string;
}

const PAGE = 100;
const CALM_MS = 5000;
const NAMES_MS = 60_000;

/** The newest first, page by page. */
export function useTenantAllocations({ state, filter, ...rest }: TenantFilter) {
  const query = { ...rest, ...(filter && { filter }), ...(state !== "" && { state: state as AllocationState }), page_size: PAGE };
  return useInfiniteQuery({
    queryKey: ["tenant-allocations", query],
    queryFn: ({ pageParam }) => unwrap(client.GET("/api/v1/admin/allocations", { params: { query: { ...query, page_token: pageParam } } })),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_page_token || undefined,
    refetchInterval: CALM_MS,
  });
}

/** All of every project that a filter of the API selects, the newest first. */
export function useEveryAllocation(filter: string) {
  return useQuery({
    queryKey: ["tenant-allocations", "every", filter],
    queryFn: () => everyPage((page_token) => unwrap(client.GET("/api/v1/admin/allocations", { params: { query: { filter, page_size: WHOLE, page_token } } })).then(({ allocations: items = [], next_page_token: next }) => ({ items, next }))),
    refetchInterval: CALM_MS,
  });
}

/** Terminals of all projects, or of one allocation, that a filter of the API selects; the newest first, page by page. */
export function useTerminalSessions(allocation_id: string, filter: string) {
  return usePages(
    ["admin-terminal-sessions", allocation_id, filter],
    (page_token) => unwrap(client.GET("/api/v1/admin/terminal-sessions", { params: { query: { page_size: PAGE, page_token, ...(allocation_id && { allocation_id }), ...(filter && { filter }) } } })).then(({ sessions: items = [], next_page_token: next }) => ({ items, next })),
    { refetchInterval: CALM_MS },
  );
}

/** Ids that one filter names: no longer than the API takes. */
const NAMED_AT_ONCE = 20;

/**
 * Filters for the allocations of these ids, each once. In their order ids are by time: a new one changes the last filter, and
 * what the others bring is not asked for again.
 */
export function idFilters(ids: string[]): string[] {
  const each = [...new Set(ids)].sort().map((id) => `id = ${id}`);
  return Array.from({ length: Math.ceil(each.length / NAMED_AT_ONCE) }, (_, at) => each.slice(at * NAMED_AT_ONCE, (at + 1) * NAMED_AT_ONCE).join(" OR "));
}

const NAMES = ["tenant-allocations", "names"];

/**
 * What these allocations of all projects are called, ended ones too; without those that were never loaded. A name of an earlier
 * filter stands until the present ones are loaded.
 */
export function useAllocationNames(ids: string[]): Map<string, string> {
  const queries = useQueryClient();
  const found = useQueries({
    queries: idFilters(ids).map((filter) => ({
      queryKey: [...NAMES, filter],
      queryFn: () => unwrap(client.GET("/api/v1/admin/allocations", { params: { query: { filter, include_ended: true, page_size: NAMED_AT_ONCE } } })).then(({ allocations = [] }) => allocations),
      // a name hardly changes, and another page asks for it anew
      staleTime: NAMES_MS,
    })),
  });
  const earlier = queries.getQueriesData<TenantAllocation[]>({ queryKey: NAMES }).map(([, data]) => data);
  const named = [...earlier, ...found.map(({ data }) => data)].flatMap((data = []) => data);
  return new Map(named.map(({ allocation = {} }) => [allocation.id ?? "", nameOf(allocation)]));
}

/** Ends a terminal of anybody. */
export function useEndTerminal() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ id, reason }: { id: string; reason: string }) => unwrap(client.POST("/api/v1/admin/terminal-sessions/{session_id}:end", { params: { path: { session_id: id } }, body: { reason } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["admin-terminal-sessions"] }),
  });
}

/** Stops or releases an allocation of any project. */
export function operate(allocation_id: string, verb: "stop" | "release", reason: string) {
  return unwrap(client.POST(`/api/v1/admin/allocations/{allocation_id}:${verb}`, { params: { path: { allocation_id } }, body: { reason } }));
}

/** What shows an allocation to operators is asked for again. */
export function refreshOperated(queries: QueryClient) {
  return Promise.all(["tenant-allocations", "admin-allocation", "evacuation", "placement"].map((key) => queries.invalidateQueries({ queryKey: [key] })));
}

export function useOperate(allocation_id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ verb, reason }: { verb: "stop" | "release"; reason: string }) => operate(allocation_id, verb, reason),
    onSuccess: () => refreshOperated(queries),
  });
}
