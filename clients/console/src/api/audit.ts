/** Queries of the audit page. */
import type { components, paths } from "@gpuaas/sdk";
import { useInfiniteQuery } from "@tanstack/react-query";
import { client, unwrap } from "./client";

export type AuditRecord = components["schemas"]["audit.AuditRecord"];

/** What to match; empty ones match all. */
export interface AuditFilter {
  principal: string;
  action: string;
  resource_id: string;
  request_id: string;
  outcome: "" | "allowed" | "denied";
  source: string;
  start_time: string;
  end_time: string;
}

/** The query of a filter: what is empty is left out. */
export function queryOf(filter: AuditFilter): Partial<AuditFilter> {
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== ""));
}

type AuditQuery = NonNullable<paths["/api/v1/admin/audit"]["get"]["parameters"]["query"]>;

/** The records that match, newest first, page by page. */
export function useAudit(filter: AuditFilter) {
  const query = queryOf(filter);
  return useInfiniteQuery({
    queryKey: ["audit", query],
    queryFn: ({ pageParam }) =>
      unwrap(client.GET("/api/v1/admin/audit", { params: { query: { ...query, page_size: 50, page_token: pageParam } as AuditQuery } })),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_page_token || undefined,
  });
}
