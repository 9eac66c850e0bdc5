/** Queries and mutations of the groups that an organisation's identity provider keeps here. */
import type { components } from "@gpuaas/sdk";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { SHOWN, WHOLE, everyPage, usePages } from "./pages";
import type { MemberRole } from "./tenancy";

type Schemas = components["schemas"];
export type ScimGroup = Schemas["identity.ScimGroup"];
export type ScimGroupMapping = Schemas["identity.ScimGroupMapping"];

/** For which issuer SCIM is set up; no issuer: it is not. */
export function useScimSettings(organisation_id: string) {
  return useQuery({
    queryKey: ["scim", organisation_id],
    queryFn: () => unwrap(client.GET("/api/v1/organisations/{organisation_id}/scim", { params: { path: { organisation_id } } })),
  });
}

/** The groups, each with what it is mapped on. */
export function useScimGroups(organisation_id: string) {
  return usePages(["scim-groups", organisation_id], (page_token) =>
    unwrap(client.GET("/api/v1/organisations/{organisation_id}/scim/groups", { params: { path: { organisation_id }, query: { page_size: SHOWN, page_token } } })).then(({ groups: items = [], next_page_token: next }) => ({ items, next })),
  );
}

/** The organisation's projects that the caller sees. */
export function useProjectsOf(organisation_id: string) {
  return useQuery({
    queryKey: ["projects", organisation_id],
    queryFn: () => everyPage((page_token) => unwrap(client.GET("/api/v1/projects", { params: { query: { organisation_id, page_size: WHOLE, page_token } } })).then(({ projects: items = [], next_page_token: next }) => ({ items, next }))),
  });
}

function useChange<T, R>(change: (value: T) => Promise<R>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: () => Promise.all(["scim-groups", "members"].map((key) => queries.invalidateQueries({ queryKey: [key] }))),
  });
}

export function useMapGroup(organisation_id: string) {
  return useChange(({ group_id, ...body }: { group_id: string; target_project_id: string; role: MemberRole }) =>
    unwrap(client.POST("/api/v1/organisations/{organisation_id}/scim/groups/{group_id}/mappings", { params: { path: { organisation_id, group_id } }, body })),
  );
}

export function useUnmapGroup(organisation_id: string) {
  return useChange(({ group_id = "", id: mapping_id = "" }: ScimGroupMapping): Promise<unknown> =>
    unwrap(client.DELETE("/api/v1/organisations/{organisation_id}/scim/groups/{group_id}/mappings/{mapping_id}", { params: { path: { organisation_id, group_id, mapping_id } } })),
  );
}
