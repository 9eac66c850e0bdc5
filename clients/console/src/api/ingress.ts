/** Queries and mutations of ingress mappings: ports of a VM that are reached from outside. */
import type { components } from "@gpuaas/sdk";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type KeyHeader, useOnce } from "./attempt";
import { client, unwrap } from "./client";
import { WHOLE, everyPage } from "./pages";

export type IngressMapping = components["schemas"]["allocation.IngressMapping"];
export type IngressMappingConfig = components["schemas"]["allocation.IngressMappingConfig"];
export type IngressProtocol = Exclude<components["schemas"]["common.IngressProtocol"], "unspecified">;

const LIST = "ingress-mappings";
/** While a port is on its way, and otherwise: it may expire, and somebody else may close it. */
const SOON_MS = 1000;
const LATER_MS = 30_000;

function isOnItsWay({ status }: IngressMapping): boolean {
  return status?.state === "pending" || status?.state === "deleting";
}

/** Those of an allocation, oldest first; while `wanted`. */
export function useIngressMappings(allocation_id: string, wanted: boolean) {
  return useQuery({
    queryKey: [LIST, allocation_id],
    enabled: wanted,
    refetchInterval: ({ state }) => (state.data?.some(isOnItsWay) ? SOON_MS : LATER_MS),
    queryFn: () =>
      everyPage((page_token) => unwrap(client.GET("/api/v1/allocations/{allocation_id}/ingress-mappings", { params: { path: { allocation_id }, query: { page_size: WHOLE, page_token } } })).then(({ ingress_mappings: items = [], next_page_token: next }) => ({ items, next }))),
  });
}

export function useOpenPort(allocation_id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: useOnce(allocation_id, (config: IngressMappingConfig, header: KeyHeader) => unwrap(client.POST("/api/v1/allocations/{allocation_id}/ingress-mappings", { params: { path: { allocation_id }, header }, body: { config } }))),
    onSuccess: () => queries.invalidateQueries({ queryKey: [LIST, allocation_id] }),
  });
}

export function useClosePort(allocation_id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (ingress_mapping_id: string) => unwrap(client.DELETE("/api/v1/allocations/{allocation_id}/ingress-mappings/{ingress_mapping_id}", { params: { path: { allocation_id, ingress_mapping_id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: [LIST, allocation_id] }),
  });
}
