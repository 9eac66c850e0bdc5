/** Query and mutation of what the owners of an organisation forbid in all of its projects. */
import type { components } from "@gpuaas/sdk";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { projectOf } from "../session/roles";
import { type Session, useSession } from "../session/session";
import { client, unwrap } from "./client";

type Schemas = components["schemas"];
export type Guardrails = Schemas["identity.OrganisationGuardrails"];
export type Switch = "terminals_disabled" | "serial_logs_disabled" | "ingress_mappings_disabled" | "webhooks_disabled" | "api_keys_disabled";
/** What is left out stays as it is. */
export type GuardrailsChange = Partial<Record<Switch, boolean>> & {
  max_api_key_days?: number;
  allowed_regions?: Schemas["identity.AllowedNames"];
  allowed_skus?: Schemas["identity.AllowedNames"];
};

export function useGuardrails(organisation_id: string) {
  return useQuery({
    queryKey: ["guardrails", organisation_id],
    queryFn: () => unwrap(client.GET("/api/v1/organisations/{organisation_id}/guardrails", { params: { path: { organisation_id } } })),
  });
}

/** They change while a page is open. */
const GUARDRAILS_MS = 30_000;
const NONE: Guardrails = {};

/** What binds whom: a project, the one that is looked at where none is named, or an organisation. */
export type Bound = { project_id?: string | undefined } | { organisation_id: string };

/**
 * What is forbidden there, for `Loaded`; nothing where the caller may not read it or the server does not say: then everything is
 * offered, and the API refuses.
 */
export function useBounds(bound: Bound = {}): { data: Guardrails | undefined; error: null; refetch: () => unknown } {
  const session = useSession();
  const organisation_id = "organisation_id" in bound ? bound.organisation_id : organisationOf(session, bound.project_id);
  const found = useQuery({
    queryKey: ["guardrails", organisation_id],
    enabled: organisation_id !== "",
    queryFn: () => unwrap(client.GET("/api/v1/organisations/{organisation_id}/guardrails", { params: { path: { organisation_id } } })),
    refetchInterval: GUARDRAILS_MS,
    retry: false,
  });
  const isWaiting = organisation_id !== "" && found.isPending;
  return { data: isWaiting ? undefined : (found.data ?? NONE), error: null, refetch: found.refetch };
}

type Looking = Pick<Session, "projects" | "project">;

/** The organisation of a project of the caller's; empty for one that is none of the caller's. */
export function organisationOf(session: Looking | undefined, project_id?: string): string {
  const project = project_id === undefined ? session && projectOf(session) : session?.projects.find(({ id }) => id === project_id);
  return project?.organisation_id ?? "";
}

export function useChangeGuardrails(organisation_id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: GuardrailsChange & { etag?: string }) => unwrap(client.PATCH("/api/v1/organisations/{organisation_id}/guardrails", { params: { path: { organisation_id } }, body })),
    onSuccess: () => Promise.all(["guardrails", "webhooks"].map((key) => queries.invalidateQueries({ queryKey: [key] }))),
  });
}
