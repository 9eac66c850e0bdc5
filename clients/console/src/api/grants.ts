/** Queries and mutations of grants for single allocations of a project. */
import type { components } from "@gpuaas/sdk";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useProjectMay } from "../session/roles";
import { useSession } from "../session/session";
import { type KeyHeader, useOnce } from "./attempt";
import { client, unwrap } from "./client";
import { SHOWN, WHOLE, everyPage, textFilter, usePages } from "./pages";

export type Grant = components["schemas"]["identity.AllocationGrant"];
export type Permission = Exclude<components["schemas"]["identity.AllocationPermission"], "unspecified">;

const LIST = "allocation-grants";
/** Grants end and begin while a page is open. */
const GRANTS_MS = 30_000;

/** What a grant can be for. */
export const PERMISSIONS: [Permission, string][] = [
  ["terminal", "Terminal"],
  ["serial_log", "Serial log"],
];

const pageOf = (project_id: string, query: { page_size: number; page_token: string; allocation_id?: string; filter?: string }) =>
  unwrap(client.GET("/api/v1/projects/{project_id}/allocation-grants", { params: { path: { project_id }, query } })).then(({ grants: items = [], next_page_token: next }) => ({ items, next }));

/** Those of whoever has this part in the name; empty: all. The server searches. */
export function useGrants(project_id: string, search = "") {
  const filter = textFilter(["principal", "creator"], search);
  return usePages([LIST, project_id, filter], (page_token) => pageOf(project_id, { page_size: SHOWN, page_token, ...(filter && { filter }) }));
}

/** What of an allocation's guest the caller may see: by the role, or because an owner lets the caller into this one. */
export function useGranted(allocation_id: string, project_id: string): { terminal: boolean; serial: boolean; sessions: boolean } {
  const byRole = useProjectMay("terminal", undefined, project_id);
  const principal = useSession()?.principal;
  const found = useQuery({
    queryKey: [LIST, "of", allocation_id],
    refetchInterval: GRANTS_MS,
    enabled: !byRole && project_id !== "",
    queryFn: () => everyPage((page_token) => pageOf(project_id, { allocation_id, page_size: WHOLE, page_token })),
  });
  const now = Date.now();
  const lasts = ({ expire_time }: Grant) => !expire_time || Date.parse(expire_time) > now;
  const own = (found.data ?? []).filter((grant) => grant.allocation_id === allocation_id && grant.principal === principal && lasts(grant)).map(({ permission }) => permission);
  return { terminal: byRole || own.includes("terminal"), serial: byRole || own.includes("serial_log"), sessions: byRole };
}

/** The allocations that the caller has a grant for, whatever the role. */
export function useOwnGrants(project_id: string) {
  const principal = useSession()?.principal;
  return useQuery({
    queryKey: [LIST, "own", project_id],
    refetchInterval: GRANTS_MS,
    enabled: project_id !== "",
    queryFn: () => everyPage((page_token) => pageOf(project_id, { page_size: WHOLE, page_token })).then((grants) => ownOf(grants, principal)),
  });
}

/** Of grants the ids of the allocations that are for this principal, each once. */
export function ownOf(grants: Grant[], principal: string | undefined): string[] {
  const own = grants.filter((grant) => grant.principal === principal).map(({ allocation_id = "" }) => allocation_id);
  return [...new Set(own)];
}

/** The allocations of a project that have not ended; none for who may not read them, as an administrator who is no member. */
export function useLiveAllocations(project_id: string) {
  const mayRead = useProjectMay("read", undefined, project_id);
  return useQuery({
    queryKey: [LIST, "allocations", project_id, mayRead],
    queryFn: () => !mayRead ? [] : everyPage((page_token) => unwrap(client.GET("/api/v1/allocations", { params: { query: { project_id, page_size: WHOLE, page_token } } })).then(({ allocations: items = [], next_page_token: next }) => ({ items, next }))),
  });
}

/** Every member of a project, to choose from. */
export function useEveryMember(project_id: string) {
  return useQuery({
    queryKey: ["members", "project", project_id, "all"],
    queryFn: () => everyPage((page_token) => unwrap(client.GET("/api/v1/projects/{project_id}/members", { params: { path: { project_id }, query: { page_size: WHOLE, page_token } } })).then(({ members: items = [], next_page_token: next }) => ({ items, next }))),
  });
}

export function useGrant(project_id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: useOnce(project_id, (body: { allocation_id: string; principal: string; permission: Permission }, header: KeyHeader) => unwrap(client.POST("/api/v1/projects/{project_id}/allocation-grants", { params: { path: { project_id }, header }, body }))),
    onSuccess: () => queries.invalidateQueries({ queryKey: [LIST] }),
  });
}

export function useTakeBack(project_id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ id: grant_id = "" }: Grant) => unwrap(client.DELETE("/api/v1/projects/{project_id}/allocation-grants/{grant_id}", { params: { path: { project_id, grant_id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: [LIST] }),
  });
}
