/** When GPUs of a project's allocations were not healthy, or their host was under break-fix. */
import type { components } from "@gpuaas/sdk";
import { useQuery } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { SHOWN, everyFilter, usePages } from "./pages";

export type HealthEvent = components["schemas"]["scheduler.HealthEvent"];

const CALM_MS = 10_000;

/** So many of the newest. */
export function useLatestHealthEvents(project_id: string, page_size: number) {
  return useQuery({
    queryKey: ["health-events", project_id, "latest", page_size],
    queryFn: () => unwrap(client.GET("/api/v1/health-events", { params: { query: { project_id, page_size } } })).then(({ events = [] }) => events),
    refetchInterval: CALM_MS,
  });
}

/** What narrows the list; empty: all. */
export interface HealthFilter {
  allocation_id: string;
  state: "" | "open" | "resolved";
  kind: "" | "unknown" | "degraded" | "failed" | "break_fix";
}

/** The same as a filter of the API. Break-fix counts as degraded, and is a kind of its own for people. */
export function healthFilter({ state, kind }: Omit<HealthFilter, "allocation_id">): string {
  const lasts = { "": "", open: "NOT end_time:*", resolved: "end_time:*" }[state];
  return everyFilter(kind && (kind === "break_fix" ? "break_fix = true" : `health = ${kind}`), kind === "degraded" ? "break_fix = false" : "", lasts);
}

/** Those of a project, the newest first, page by page. */
export function useHealthEvents(project_id: string, { allocation_id, ...rest }: HealthFilter) {
  const filter = healthFilter(rest);
  return usePages(
    ["health-events", project_id, allocation_id, filter],
    (page_token) =>
      unwrap(client.GET("/api/v1/health-events", { params: { query: { project_id, page_size: SHOWN, page_token, ...(allocation_id && { allocation_id }), ...(filter && { filter }) } } })).then(({ events: items = [], next_page_token: next }) => ({ items, next })),
    { refetchInterval: CALM_MS },
  );
}
