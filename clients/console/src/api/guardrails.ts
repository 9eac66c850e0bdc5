/** Query and mutation of what the owners of an organisation forbid in all of its projects. */
import type { components } from "@gpuaas/sdk";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
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

export function useChangeGuardrails(organisation_id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: GuardrailsChange & { etag?: string }) => unwrap(client.PATCH("/api/v1/organisations/{organisation_id}/guardrails", { params: { path: { organisation_id } }, body })),
    onSuccess: () => Promise.all(["guardrails", "webhooks"].map((key) => queries.invalidateQueries({ queryKey: [key] }))),
  });
}
