/** Queries of the audit page. */
import type { components, paths } from "@gpuaas/sdk";
import { useInfiniteQuery } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { Problem } from "./problem";

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

/** Most records of a page. */
const PAGE = 500;

export type AuditChain = components["schemas"]["audit.AuditChain"];

/** Where the chain of each source ends. Fails where a source does not answer: what is left out proves nothing. */
export async function auditChains(): Promise<AuditChain[]> {
  const { chains = [], unreachable_sources: missing = [] } = await unwrap(client.GET("/api/v1/admin/audit/chains", {}));
  if (missing.length > 0) throw new Problem({ status: 503, message: `${missing.join(", ")} did not answer. Try again in a moment.` });
  return chains;
}

/** The sealed records of a source in the order of its chain, page by page; the last page is empty. */
export async function* auditPages(source: string, stop: AbortSignal) {
  let after = 0;
  for (;;) {
    stop.throwIfAborted();
    const page = await unwrap(client.GET("/api/v1/admin/audit/{source}:export", { params: { path: { source }, query: { after_position: String(after), page_size: PAGE } }, signal: stop }));
    yield page;
    const last = page.records?.at(-1);
    if (!last) return;
    const next = Number(last.position);
    // a page that does not go on would be read for ever
    if (!(next > after)) throw new Problem({ status: 502, message: `${source}: a record came out of order.` });
    after = next;
  }
}
