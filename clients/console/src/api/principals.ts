/** Query and mutations of principals: who is registered, and what role they have on the platform. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { PlatformRole } from "../session/rights";
import { type KeyHeader, useOnce } from "./attempt";
import { client, unwrap } from "./client";
import { SHOWN, textFilter, usePages } from "./pages";
import type { components } from "@gpuaas/sdk";

export type Principal = components["schemas"]["identity.Principal"];

export interface PrincipalFilter {
  /** A part of the name, the display name or the email address. */
  search: string;
  /** Empty: all. */
  platform_role: PlatformRole | "";
  state: "" | "enabled" | "disabled";
}

export function queryOf({ search, platform_role, state }: PrincipalFilter) {
  const filter = textFilter(["name", "display_name", "email"], search);
  return { ...(filter && { filter }), ...(platform_role && { platform_role }), ...(state && { disabled: state === "disabled" }) };
}

export function usePrincipals(filter: PrincipalFilter) {
  const query = queryOf(filter);
  return usePages(["principals", JSON.stringify(query)], (page_token) =>
    unwrap(client.GET("/api/v1/admin/principals", { params: { query: { ...query, page_size: SHOWN, page_token } } })).then(({ principals: items = [], next_page_token: next }) => ({ items, next })),
  );
}

function useChange<T>(change: (value: T) => Promise<Principal>) {
  const queries = useQueryClient();
  return useMutation({ mutationFn: change, onSuccess: () => queries.invalidateQueries({ queryKey: ["principals"] }) });
}

export function useCreatePrincipal() {
  return useChange(useOnce("principal", (body: { name: string; display_name: string; issuer: string; subject: string; email: string }, header: KeyHeader) => unwrap(client.POST("/api/v1/admin/principals", { params: { header }, body }))));
}

export function usePrincipalState({ id: principal_id = "", etag }: Principal) {
  return useChange(({ verb, reason }: { verb: "disable" | "enable"; reason: string }) =>
    unwrap(client.POST(`/api/v1/admin/principals/{principal_id}:${verb}`, { params: { path: { principal_id } }, body: verb === "disable" ? { etag, reason } : { etag } })),
  );
}

export function useSetPlatformRole({ id: principal_id = "", etag }: Principal) {
  return useChange((platform_role: PlatformRole) => unwrap(client.POST("/api/v1/admin/principals/{principal_id}:setPlatformRole", { params: { path: { principal_id } }, body: { platform_role, etag } })));
}
