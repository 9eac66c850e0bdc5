/** Queries and mutations of what is offered: regions, SKUs, prices, images, quotas, and new nodes. */
import { type components, idempotencyKey } from "@gpuaas/sdk";
import { useMutation, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { type KeyHeader, useOnce } from "./attempt";
import { client, unwrap } from "./client";
import { Problem } from "./problem";
import { SHOWN, everyFilter, textFilter, usePages } from "./pages";
import type { FleetNode, Money, Region, Sku } from "./types";

const PAGE = 200;
const CALM_MS = 10_000;

export type ImageStatus = components["schemas"]["images.ImageStatus"];
export type DriverStrategy = components["schemas"]["common.DriverStrategy"];
export type PriceVersion = components["schemas"]["billing.PriceVersion"];

/** Those with this part in slug or name, and of this status; empty: all. */
export function imageFilter(search: string, status: string): string {
  return everyFilter(textFilter(["slug", "display_name"], search), status && `status = ${status}`);
}

/** Images of every status unless one is named, page by page; the server searches. */
export function useAllImages(search: string, status: string) {
  const filter = imageFilter(search, status);
  return usePages(
    ["all-images", filter],
    (page_token) =>
      unwrap(client.GET("/api/v1/admin/images", { params: { query: { page_size: SHOWN, page_token, ...(filter && { filter }) } } })).then(({ images: items = [], next_page_token: next }) => ({ items, next })),
    { refetchInterval: CALM_MS },
  );
}

/** The price versions of a SKU, or of all where it is empty, newest first, page by page. */
export function usePrices(sku: string) {
  return usePages(["prices", sku], (page_token) =>
    unwrap(client.GET("/api/v1/admin/prices", { params: { query: { page_size: SHOWN, page_token, ...(sku && { sku }) } } })).then(({ price_versions: items = [], next_page_token: next }) => ({ items, next })),
  );
}

/** A change that makes lists stale. */
function useChange<T>(lists: string[], change: (value: T) => Promise<unknown>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: () => Promise.all(lists.map((key) => queries.invalidateQueries({ queryKey: [key] }))),
  });
}

export function usePutRegion() {
  return useChange(
    ["regions"],
    useOnce("region", ({ code, ...body }: Region, header: KeyHeader) => unwrap(client.PUT("/api/v1/admin/regions/{region_code}", { params: { path: { region_code: code }, header }, body: { ...body, code } }))),
  );
}

export function useDeleteRegion() {
  return useChange(["regions"], ({ code: region_code, etag, reason }: { code: string; etag: string | undefined; reason: string }) =>
    unwrap(client.DELETE("/api/v1/admin/regions/{region_code}", { params: { path: { region_code }, query: { reason, etag } } })),
  );
}

export function usePutSku() {
  return useChange(
    ["skus"],
    useOnce("sku", ({ code, ...body }: Omit<Sku, "price_per_gpu_hour" | "price_version_id" | "lab">, header: KeyHeader) => unwrap(client.PUT("/api/v1/admin/skus/{sku_code}", { params: { path: { sku_code: code }, header }, body: { ...body, code } }))),
  );
}

export function useCreatePrice() {
  return useChange(
    ["prices", "skus"],
    useOnce("price", (body: { sku: string; price_per_gpu_hour: Money }, header: KeyHeader) => unwrap(client.POST("/api/v1/admin/prices", { params: { header }, body }))),
  );
}

export interface NewImage {
  slug: string;
  display_name: string;
  driver_strategy: DriverStrategy;
  source_uri: string;
  compatible_skus: string[];
  boot_timeout_seconds: number;
  readiness_checks: components["schemas"]["common.ReadinessCheck"][];
}

/** Repeats a change, with one key, while the catalog reads the content of the image: that takes longer than a call. The catalog ends every reading. */
export async function onceVerified<T>(change: (header: KeyHeader) => Promise<T>, header: KeyHeader = { "X-Idempotency-Key": idempotencyKey() }): Promise<T> {
  for (;;) {
    try {
      return await change(header);
    } catch (error) {
      if (!(error instanceof Problem && error.reason === "IMAGE_BEING_VERIFIED")) throw error;
    }
  }
}

export function useCreateImage() {
  return useChange(
    ["all-images", "images"],
    useOnce("image", (body: NewImage, key: KeyHeader) => onceVerified((header) => unwrap(client.POST("/api/v1/admin/images", { params: { header }, body })), key)),
  );
}

export function useSetImageStatus() {
  return useChange(["all-images", "images"], ({ slug, ...body }: { slug: string; status: ImageStatus; etag: string | undefined }) =>
    onceVerified((header) => unwrap(client.POST("/api/v1/admin/images/{slug}:setStatus", { params: { path: { slug }, header }, body }))),
  );
}

/** Quotas of several projects, in their order; nothing for those that are not loaded yet. */
export function useProjectQuotas(ids: string[]) {
  return useQueries({
    queries: ids.map((project_id) => ({
      queryKey: ["project-quotas", project_id],
      queryFn: () => unwrap(client.GET("/api/v1/admin/projects/{project_id}/quotas", { params: { path: { project_id } } })),
      refetchInterval: CALM_MS,
    })),
  });
}

export function usePutQuota() {
  return useChange(["project-quotas"], ({ project_id, sku, max, etag }: { project_id: string; /** Empty: allocations of all SKUs. */ sku: string; max: number; /** Of the quotas that were read. */ etag: string | undefined }) =>
    sku
      ? unwrap(client.PUT("/api/v1/admin/projects/{project_id}/quotas/{sku}", { params: { path: { project_id, sku } }, body: { max_gpus: max, etag } }))
      : unwrap(client.PUT("/api/v1/admin/projects/{project_id}/allocation-limit", { params: { path: { project_id } }, body: { max_allocations: max, etag } })),
  );
}

/** Counters of the fleet. */
export function useFleetCounts() {
  return useQuery({
    queryKey: ["fleet-counts"],
    queryFn: () => unwrap(client.GET("/api/v1/admin/fleet:counts", { params: { query: {} } })),
    refetchInterval: CALM_MS,
  });
}

/** Each node of the fleet with its own counters. */
export function useFleetNodes() {
  return useQuery({
    queryKey: ["fleet-nodes"],
    queryFn: async () => {
      const nodes: FleetNode[] = [];
      let page_token = "";
      do {
        const page = await unwrap(client.GET("/api/v1/admin/fleet/nodes", { params: { query: { page_size: PAGE, page_token } } }));
        nodes.push(...(page.nodes ?? []));
        page_token = page.next_page_token ?? "";
      } while (page_token);
      return nodes;
    },
    refetchInterval: CALM_MS,
  });
}

export interface NewNode {
  hostname: string;
  region_code: string;
  mode: string;
  max_vms_per_node: number;
  rack: string;
}

export function createNode(body: NewNode, header: KeyHeader) {
  return unwrap(client.POST("/api/v1/admin/nodes", { params: { header }, body }));
}

export function createEnrolmentToken(node_id: string) {
  return unwrap(client.POST("/api/v1/admin/nodes/{node_id}/enrolment-tokens", { params: { path: { node_id } }, body: {} }));
}
