/** Queries and mutations of who belongs where: SSH keys, members, invitations, projects, organisations. */
import type { components } from "@gpuaas/sdk";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useProjectMay } from "../session/roles";
import { useSession } from "../session/session";
import { type KeyHeader, useOnce } from "./attempt";
import { client, unwrap } from "./client";
import { SHOWN, WHOLE, everyFilter, everyPage, textFilter, usePages } from "./pages";

type Schemas = components["schemas"];
export type SshKey = Schemas["identity.SshKey"];
export type Member = Schemas["identity.Member"];
export type Invitation = Schemas["identity.Invitation"];
export type MemberRole = Exclude<Schemas["identity.MemberRole"], "unspecified">;
export type Organisation = Schemas["identity.Organisation"];
export type TenantProject = Schemas["identity.Project"];

/** Roles with what they may do, the strongest first. */
export const ROLES: [MemberRole, string, string][] = [
  ["owner", "Owner", "manages members, keys and settings, and has all rights of a member"],
  ["member", "Member", "launches and uses allocations"],
  ["viewer", "Viewer", "sees everything, changes nothing"],
  ["billing", "Billing", "sees usage and cost"],
];

/** The project that is looked at; the only one where none is chosen. */
export function useProjectId(): string {
  const session = useSession();
  return session?.project || (session?.projects[0]?.id ?? "");
}

/** A change that makes lists stale. */
function useChange<T, R>(lists: string[], change: (value: T) => Promise<R>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: () => Promise.all(lists.map((key) => queries.invalidateQueries({ queryKey: [key] }))),
  });
}

/** The caller's own keys, by name. */
export function useOwnKeys() {
  return useQuery({
    queryKey: ["ssh-keys"],
    queryFn: () => everyPage((page_token) => unwrap(client.GET("/api/v1/ssh-keys", { params: { query: { page_size: WHOLE, page_token } } })).then(({ ssh_keys: items = [], next_page_token: next }) => ({ items, next }))),
  });
}

/** Those that all members of the project share. */
export function useProjectKeys() {
  const project_id = useProjectId();
  const mayRead = useProjectMay("read", "read");
  return useQuery({
    queryKey: ["project-ssh-keys", project_id],
    enabled: project_id !== "" && mayRead,
    queryFn: () => everyPage((page_token) => unwrap(client.GET("/api/v1/projects/{project_id}/ssh-keys", { params: { path: { project_id }, query: { page_size: WHOLE, page_token } } })).then(({ ssh_keys: items = [], next_page_token: next }) => ({ items, next }))),
  });
}

export function useAddKey() {
  return useChange(
    ["ssh-keys", "project-ssh-keys"],
    useOnce("ssh-key", ({ project_id, ...body }: { /** Empty: the caller's own. */ project_id: string; name: string; public_key: string }, header: KeyHeader) =>
      project_id ? unwrap(client.POST("/api/v1/projects/{project_id}/ssh-keys", { params: { path: { project_id }, header }, body })) : unwrap(client.POST("/api/v1/ssh-keys", { params: { header }, body })),
    ),
  );
}

export function useDeleteKey() {
  return useChange(["ssh-keys", "project-ssh-keys"], ({ id: ssh_key_id = "", project_id }: SshKey) =>
    project_id
      ? unwrap(client.DELETE("/api/v1/projects/{project_id}/ssh-keys/{ssh_key_id}", { params: { path: { project_id, ssh_key_id } } }))
      : unwrap(client.DELETE("/api/v1/ssh-keys/{ssh_key_id}", { params: { path: { ssh_key_id } } })),
  );
}

/** An organisation or a project. */
export interface Tenant {
  kind: "organisation" | "project";
  id: string;
}

/** Members page by page; the server searches, so that those of later pages are found too. */
export function useMembers({ kind, id }: Tenant, search = "") {
  const filter = textFilter(["principal", "display_name", "email"], search);
  return usePages(
    ["members", kind, id, filter],
    (page_token) => {
      const query = { page_size: SHOWN, page_token, ...(filter && { filter }) };
      return (
        kind === "project"
          ? unwrap(client.GET("/api/v1/projects/{project_id}/members", { params: { path: { project_id: id }, query } }))
          : unwrap(client.GET("/api/v1/organisations/{organisation_id}/members", { params: { path: { organisation_id: id }, query } }))
      ).then(({ members: items = [], next_page_token: next }) => ({ items, next }));
    },
    { enabled: id !== "" },
  );
}

export function useAddMember({ kind, id }: Tenant) {
  return useChange(
    ["members"],
    useOnce(id, (body: { principal: string; role: MemberRole }, header: KeyHeader) =>
      kind === "project"
        ? unwrap(client.POST("/api/v1/projects/{project_id}/members", { params: { path: { project_id: id }, header }, body }))
        : unwrap(client.POST("/api/v1/organisations/{organisation_id}/members", { params: { path: { organisation_id: id }, header }, body })),
    ),
  );
}

export function useChangeMember({ kind, id }: Tenant) {
  return useChange(["members"], ({ member_id = "", etag, role }: Member & { role: MemberRole }) =>
    kind === "project"
      ? unwrap(client.PATCH("/api/v1/projects/{project_id}/members/{member_id}", { params: { path: { project_id: id, member_id } }, body: { role, etag } }))
      : unwrap(client.PATCH("/api/v1/organisations/{organisation_id}/members/{member_id}", { params: { path: { organisation_id: id, member_id } }, body: { role, etag } })),
  );
}

export function useRemoveMember({ kind, id }: Tenant) {
  return useChange(["members"], ({ member_id = "", etag = "" }: Member): Promise<unknown> =>
    kind === "project"
      ? unwrap(client.DELETE("/api/v1/projects/{project_id}/members/{member_id}", { params: { path: { project_id: id, member_id }, query: { etag } } }))
      : unwrap(client.DELETE("/api/v1/organisations/{organisation_id}/members/{member_id}", { params: { path: { organisation_id: id, member_id }, query: { etag } } })),
  );
}

export type InvitationState = Exclude<Schemas["identity.InvitationState"], "unspecified">;

/** Those with this part in the address or in who invited, and of this state; empty: all. The server searches. */
export function useInvitations({ kind, id }: Tenant, search = "", state: InvitationState | "" = "") {
  const filter = everyFilter(textFilter(["email", "inviter"], search), state && `state = ${state}`);
  return usePages(
    ["invitations", kind, id, filter],
    (page_token) => {
      const query = { page_size: SHOWN, page_token, ...(filter && { filter }) };
      return (
        kind === "project"
          ? unwrap(client.GET("/api/v1/projects/{project_id}/invitations", { params: { path: { project_id: id }, query } }))
          : unwrap(client.GET("/api/v1/organisations/{organisation_id}/invitations", { params: { path: { organisation_id: id }, query } }))
      ).then(({ invitations: items = [], next_page_token: next }) => ({ items, next }));
    },
    { enabled: id !== "" },
  );
}

export function useInvite({ kind, id }: Tenant) {
  return useChange(
    ["invitations"],
    useOnce(id, (body: { email: string; role: MemberRole }, header: KeyHeader) =>
      kind === "project"
        ? unwrap(client.POST("/api/v1/projects/{project_id}/invitations", { params: { path: { project_id: id }, header }, body }))
        : unwrap(client.POST("/api/v1/organisations/{organisation_id}/invitations", { params: { path: { organisation_id: id }, header }, body })),
    ),
  );
}

export function useRevoke() {
  return useChange(["invitations"], ({ id: invitation_id = "" }: Invitation) => unwrap(client.POST("/api/v1/invitations/{invitation_id}:revoke", { params: { path: { invitation_id } }, body: {} })));
}

export function useAccept() {
  return useChange(["members", "projects"], (token: string) => unwrap(client.POST("/api/v1/invitations:accept", { body: { token } })));
}

/** States change while a page is open. */
const STATE_MS = 60_000;

export function useTenantProject(project_id: string) {
  return useQuery({
    queryKey: ["tenant-project", project_id],
    enabled: project_id !== "",
    refetchInterval: STATE_MS,
    queryFn: () => unwrap(client.GET("/api/v1/projects/{project_id}", { params: { path: { project_id } } })),
  });
}

/** What changes the state of a tenant. */
export type StateVerb = "suspend" | "resume" | "close";

export function useProjectState() {
  return useChange(["tenant-project", "projects", "all-projects"], ({ id: project_id = "", etag, verb, reason }: TenantProject & { verb: StateVerb; reason: string }) =>
    unwrap(client.POST(`/api/v1/projects/{project_id}:${verb}`, { params: { path: { project_id } }, body: verb === "resume" ? { etag } : { etag, reason } })),
  );
}

export function useRenameProject() {
  return useChange(["tenant-project", "projects"], ({ id: project_id = "", etag, display_name }: TenantProject & { display_name: string }) =>
    unwrap(client.PATCH("/api/v1/projects/{project_id}", { params: { path: { project_id } }, body: { display_name, etag } })),
  );
}

/** The organisations that the caller is a member of, or has a project in; while `wanted`. */
export function useOwnOrganisations(wanted = true) {
  return useQuery({
    queryKey: ["own-organisations"],
    enabled: wanted,
    queryFn: () => everyPage((page_token) => unwrap(client.GET("/api/v1/organisations", { params: { query: { page_size: WHOLE, page_token } } })).then(({ organisations: items = [], next_page_token: next }) => ({ items, next }))),
  });
}

export function useRenameOrganisation() {
  return useChange(["own-organisations", "organisations"], ({ id: organisation_id = "", etag, display_name }: Organisation & { display_name: string }) =>
    unwrap(client.PATCH("/api/v1/organisations/{organisation_id}", { params: { path: { organisation_id } }, body: { display_name, etag } })),
  );
}

/** All organisations, for operators. */
export function useOrganisations() {
  return useQuery({
    queryKey: ["organisations"],
    queryFn: () => everyPage((page_token) => unwrap(client.GET("/api/v1/admin/organisations", { params: { query: { page_size: WHOLE, page_token } } })).then(({ organisations: items = [], next_page_token: next }) => ({ items, next }))),
  });
}

/** One of them. */
export function useOrganisation(organisation_id: string) {
  return useQuery({
    queryKey: ["organisations", organisation_id],
    enabled: organisation_id !== "",
    refetchInterval: STATE_MS,
    queryFn: () => unwrap(client.GET("/api/v1/organisations/{organisation_id}", { params: { path: { organisation_id } } })),
  });
}

/** All projects with their state, for operators. */
export function useTenantProjects() {
  return useQuery({
    queryKey: ["all-projects"],
    queryFn: () => everyPage((page_token) => unwrap(client.GET("/api/v1/admin/projects", { params: { query: { page_size: WHOLE, page_token } } })).then(({ projects: items = [], next_page_token: next }) => ({ items, next }))),
  });
}

/** The projects of an organisation that the caller sees, page by page; the server searches. */
export function useOrganisationProjects(organisation_id: string, search: string) {
  const filter = textFilter(["slug", "display_name"], search);
  return usePages(["projects", organisation_id, "pages", filter], (page_token) =>
    unwrap(client.GET("/api/v1/projects", { params: { query: { organisation_id, page_size: SHOWN, page_token, ...(filter && { filter }) } } })).then(({ projects: items = [], next_page_token: next }) => ({ items, next })),
  );
}

export function useCreateOrganisation() {
  return useChange(
    ["organisations"],
    useOnce("organisation", (body: { slug: string; display_name: string; owner: string }, header: KeyHeader) => unwrap(client.POST("/api/v1/admin/organisations", { params: { header }, body }))),
  );
}

export function useCreateProject() {
  return useChange(
    ["projects", "all-projects"],
    useOnce("project", (body: { organisation_id: string; slug: string; display_name: string }, header: KeyHeader) => unwrap(client.POST("/api/v1/projects", { params: { header }, body }))),
  );
}

export function useOrganisationState() {
  return useChange(["organisations", "own-organisations", "all-projects", "tenant-project"], ({ id: organisation_id = "", etag, verb, reason }: Organisation & { verb: StateVerb; reason: string }) =>
    unwrap(client.POST(`/api/v1/admin/organisations/{organisation_id}:${verb}`, { params: { path: { organisation_id } }, body: verb === "resume" ? { etag } : { etag, reason } })),
  );
}
