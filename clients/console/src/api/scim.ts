/** Queries and mutations of provisioning by SCIM: its settings, its keys, and the groups that the identity provider keeps here. */
import type { components } from "@gpuaas/sdk";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { ApiKey, NewKey } from "./accounts";
import { type KeyHeader, useOnce } from "./attempt";
import { client, unwrap } from "./client";
import { SHOWN, WHOLE, everyPage, usePages } from "./pages";
import { Problem } from "./problem";
import type { MemberRole } from "./tenancy";

type Schemas = components["schemas"];
export type ScimGroup = Schemas["identity.ScimGroup"];
export type ScimGroupMapping = Schemas["identity.ScimGroupMapping"];
/** A key for SCIM, and whose it is. */
export type ScimKey = Schemas["identity.ScimKey"];

export type ScimSettings = Schemas["identity.ScimSettings"];
/** Which attribute of a SCIM user is the subject in the tokens of the issuer. */
export type SubjectAttribute = Exclude<Schemas["identity.ScimSubjectAttribute"], "unspecified">;

export const settingsKey = (organisation_id: string) => ["scim", organisation_id];

/** For which issuer SCIM is set up; no issuer: it is not. */
export function useScimSettings(organisation_id: string) {
  return useQuery({
    queryKey: settingsKey(organisation_id),
    queryFn: () => unwrap(client.GET("/api/v1/organisations/{organisation_id}/scim", { params: { path: { organisation_id } } })),
  });
}

/** For administrators of the platform. */
export function usePutScimSettings(organisation_id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: { issuer: string; subject_attribute: SubjectAttribute; etag: string | undefined }) => unwrap(client.PUT("/api/v1/admin/organisations/{organisation_id}/scim", { params: { path: { organisation_id } }, body })),
    onSuccess: () => queries.invalidateQueries({ queryKey: settingsKey(organisation_id) }),
  });
}

const accountsOf = (project_id: string) =>
  everyPage((page_token) => unwrap(client.GET("/api/v1/projects/{project_id}/service-accounts", { params: { path: { project_id }, query: { page_size: WHOLE, page_token } } })).then(({ service_accounts: items = [], next_page_token: next }) => ({ items, next })));

/** The keys for SCIM of all projects of an organisation, the disabled and expired ones too. */
export function useScimKeys(organisation_id: string) {
  return useQuery({
    queryKey: ["scim-keys", organisation_id],
    queryFn: () => everyPage((page_token) => unwrap(client.GET("/api/v1/organisations/{organisation_id}/scim/keys", { params: { path: { organisation_id }, query: { page_size: WHOLE, page_token } } })).then(({ keys: items = [], next_page_token: next }) => ({ items, next }))),
  });
}

/** The service account that keys for SCIM are made for. */
const SCIM_ACCOUNT = "identity-provider";

/** A key for SCIM; makes the service account for it where there is none yet. One that is disabled still has the name. */
export async function makeScimKey(project_id: string, body: { display_name: string; expire_time?: string | undefined }, header: KeyHeader): Promise<ApiKey> {
  const known = (await accountsOf(project_id)).find(({ slug }) => slug === SCIM_ACCOUNT);
  if (known?.disable_time) throw new Problem({ status: 409, message: `The service account ${SCIM_ACCOUNT} is disabled. Enable ${SCIM_ACCOUNT} in Service accounts first.` });
  const { id: service_account_id = "" } = known ?? (await unwrap(client.POST("/api/v1/projects/{project_id}/service-accounts", { params: { path: { project_id } }, body: { slug: SCIM_ACCOUNT, role: "billing", description: "People and groups by SCIM" } })));
  return unwrap(client.POST("/api/v1/projects/{project_id}/service-accounts/{service_account_id}/api-keys", { params: { path: { project_id, service_account_id }, header }, body: { ...body, scopes: ["scim"] } }));
}

/** For owners of the organisation. */
export function useMakeScimKey(project_id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: useOnce(
      project_id,
      ({ days: _, ...body }: Omit<NewKey, "scopes">, header: KeyHeader) => makeScimKey(project_id, body, header),
      ({ expire_time: _, ...chosen }) => chosen,
    ),
    onSuccess: () => Promise.all(["scim-keys", "service-accounts", "api-keys"].map((key) => queries.invalidateQueries({ queryKey: [key] }))),
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
  return useChange(
    useOnce(organisation_id, ({ group_id, ...body }: { group_id: string; target_project_id: string; role: MemberRole }, header: KeyHeader) =>
      unwrap(client.POST("/api/v1/organisations/{organisation_id}/scim/groups/{group_id}/mappings", { params: { path: { organisation_id, group_id }, header }, body })),
    ),
  );
}

export function useUnmapGroup(organisation_id: string) {
  return useChange(({ group_id = "", id: mapping_id = "" }: ScimGroupMapping): Promise<unknown> =>
    unwrap(client.DELETE("/api/v1/organisations/{organisation_id}/scim/groups/{group_id}/mappings/{mapping_id}", { params: { path: { organisation_id, group_id, mapping_id } } })),
  );
}
