/** Queries and mutations of service accounts and their API keys. */
import type { components } from "@gpuaas/sdk";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type KeyHeader, useOnce } from "./attempt";
import { client, unwrap } from "./client";
import { SHOWN, textFilter, usePages } from "./pages";
import type { MemberRole } from "./tenancy";

type Schemas = components["schemas"];
export type ServiceAccount = Schemas["identity.ServiceAccount"];
export type ApiKey = Schemas["identity.ApiKey"];
export type Scope = Exclude<Schemas["identity.ApiKeyScope"], "unspecified">;

/** Scopes with what they allow. */
export const SCOPES: [Scope, string][] = [
  ["read", "Read"],
  ["billing", "Usage, prices and limits"],
  ["write", "Launch, power, release, reservations"],
  ["terminal", "Terminals and recordings"],
  ["manage", "Members, service accounts and keys"],
  ["scim", "People and groups of the organisation, by SCIM"],
];

/** Those with this part in slug, name or description; empty: all. The server searches. */
export function useServiceAccounts(project_id: string, search = "") {
  const filter = textFilter(["slug", "principal", "description"], search);
  return usePages(["service-accounts", project_id, filter], (page_token) =>
    unwrap(client.GET("/api/v1/projects/{project_id}/service-accounts", { params: { path: { project_id }, query: { page_size: SHOWN, page_token, ...(filter && { filter }) } } })).then(({ service_accounts: items = [], next_page_token: next }) => ({ items, next })),
  );
}

export function useApiKeys(project_id: string, service_account_id: string) {
  return usePages(["api-keys", service_account_id], (page_token) =>
    unwrap(client.GET("/api/v1/projects/{project_id}/service-accounts/{service_account_id}/api-keys", { params: { path: { project_id, service_account_id }, query: { page_size: SHOWN, page_token } } })).then(({ api_keys: items = [], next_page_token: next }) => ({ items, next })),
  );
}

function useChange<T, R>(change: (value: T) => Promise<R>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: () => Promise.all(["service-accounts", "api-keys", "scim-keys"].map((key) => queries.invalidateQueries({ queryKey: [key] }))),
  });
}

export function useCreateAccount(project_id: string) {
  return useChange(
    useOnce(project_id, (body: { slug: string; role: MemberRole; description: string }, header: KeyHeader) => unwrap(client.POST("/api/v1/projects/{project_id}/service-accounts", { params: { path: { project_id }, header }, body }))),
  );
}

/** Disables, enables or deletes an account. */
export function useAccountState({ project_id = "", id: service_account_id = "", etag }: ServiceAccount) {
  return useChange((verb: "disable" | "enable" | "delete"): Promise<unknown> => {
    const params = { path: { project_id, service_account_id } };
    return verb === "delete"
      ? unwrap(client.DELETE("/api/v1/projects/{project_id}/service-accounts/{service_account_id}", { params: { ...params, query: { etag } } }))
      : unwrap(client.POST(`/api/v1/projects/{project_id}/service-accounts/{service_account_id}:${verb}`, { params, body: { etag } }));
  });
}

export interface NewKey {
  display_name: string;
  scopes: Scope[];
  /** How long it lives, as it was chosen: asked for again, it is the same key, although it would expire later by now. */
  days: string;
  expire_time?: string | undefined;
}

export function useCreateKey({ project_id = "", id: service_account_id = "" }: ServiceAccount) {
  return useChange(
    useOnce(
      service_account_id,
      ({ days: _, ...body }: NewKey, header: KeyHeader) => unwrap(client.POST("/api/v1/projects/{project_id}/service-accounts/{service_account_id}/api-keys", { params: { path: { project_id, service_account_id }, header }, body })),
      ({ expire_time: _, ...chosen }) => chosen,
    ),
  );
}

interface KeyVerb {
  verb: "rotate" | "disable";
  key: ApiKey;
  /** Of the new key; otherwise it lives as long as the one before. */
  expire_time?: string | undefined;
}

export function useKeyVerb({ project_id = "", id: service_account_id = "" }: ServiceAccount) {
  return useChange(
    useOnce(
      service_account_id,
      ({ verb, key, expire_time }: KeyVerb, header: KeyHeader) =>
        unwrap(client.POST(`/api/v1/projects/{project_id}/service-accounts/{service_account_id}/api-keys/{api_key_id}:${verb}`, { params: { path: { project_id, service_account_id, api_key_id: key.id ?? "" }, header }, body: expire_time ? { expire_time } : {} })),
      ({ verb, key }) => [verb, key.id],
    ),
  );
}
