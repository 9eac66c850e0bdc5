/** Queries and mutations of grants for single allocations of a project. */
import type { components } from "@gpuaas/sdk";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { client, unwrap } from "./client";

export type Grant = components["schemas"]["identity.AllocationGrant"];
export type Permission = Exclude<components["schemas"]["identity.AllocationPermission"], "unspecified">;

const PAGE = 500;
const LIST = "allocation-grants";

/** What a grant can be for. */
export const PERMISSIONS: [Permission, string][] = [
  ["terminal", "Terminal"],
  ["serial_log", "Serial log"],
];

export function useGrants(project_id: string) {
  return useQuery({
    queryKey: [LIST, project_id],
    queryFn: () => unwrap(client.GET("/api/v1/projects/{project_id}/allocation-grants", { params: { path: { project_id }, query: { page_size: PAGE } } })).then(({ grants = [] }) => grants),
  });
}

/** The allocations of a project that have not ended. */
export function useLiveAllocations(project_id: string) {
  return useQuery({
    queryKey: [LIST, "allocations", project_id],
    queryFn: () => unwrap(client.GET("/api/v1/allocations", { params: { query: { project_id, page_size: PAGE } } })).then(({ allocations = [] }) => allocations),
  });
}

export function useGrant(project_id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: { allocation_id: string; principal: string; permission: Permission }) => unwrap(client.POST("/api/v1/projects/{project_id}/allocation-grants", { params: { path: { project_id } }, body })),
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
