/** Queries of the views, where no watch delivers the data. */
import type { components } from "@gpuaas/sdk";
import { queryOptions, useInfiniteQuery, useQueries, useQuery } from "@tanstack/react-query";
import { may } from "../session/rights";
import { useProjectMay } from "../session/roles";
import { type Project, useSession } from "../session/session";
import { allPages, client, unwrap } from "./client";
import { type ExplanationQuery, queryOf } from "./explanation";
import { WHOLE, everyPage } from "./pages";
import { Problem } from "./problem";
import type { Discovery } from "./types";
import { USAGE_MS, endedSince } from "./usage";

/** Polling intervals in milliseconds. */
const LIVE_MS = 1000;
const CALM_MS = 2000;
const SLOW_MS = 5000;
const PAGE = 200;

function useProject(): string {
  return useSession()?.project ?? "";
}

type AnyProject = components["schemas"]["identity.Project"];
const namedOf = new WeakMap<AnyProject[], Project[]>();

/** The same list for all who ask: each row of a table does, and there may be thousands of projects. */
function named(all: AnyProject[]): Project[] {
  const projects = namedOf.get(all) ?? all.map(({ id = "", slug = "", display_name = "", organisation = "", state }) => ({ id, slug, display_name, organisation, isClosed: state === "closed" }));
  namedOf.set(all, projects);
  return projects;
}

/** The projects that the user can name: all of them with a role on the platform, otherwise those of the user. */
export function useProjects(): Project[] {
  const session = useSession();
  const all = useQuery({
    queryKey: ["projects"],
    enabled: may(session?.platformRole, "read"),
    queryFn: () => everyPage((page_token) => unwrap(client.GET("/api/v1/admin/projects", { params: { query: { page_size: WHOLE, page_token } } })).then(({ projects: items = [], next_page_token: next }) => ({ items, next }))),
    staleTime: 60_000,
    retry: false,
  });
  const own = session?.projects ?? [];
  return may(session?.platformRole, "read") && all.data ? named(all.data) : own;
}

/** Those that have ended too, page by page; what is going on comes from the watch. */
export function useAllAllocations(wanted: boolean) {
  const project_id = useProject();
  const mayRead = useProjectMay("read");
  return useInfiniteQuery({
    queryKey: ["allocations", project_id],
    enabled: wanted && mayRead,
    queryFn: ({ pageParam }) =>
      unwrap(
        client.GET("/api/v1/allocations", {
          params: { query: { project_id, include_ended: true, page_size: 50, page_token: pageParam } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_page_token || undefined,
  });
}

/** One allocation as it is at this moment. */
export function useAllocation(allocation_id: string) {
  return useQuery(allocationQuery(allocation_id));
}

/** One that has ended, of which little changes: it is asked for once. */
export function useEndedAllocation(allocation_id: string) {
  return useQuery({ ...allocationQuery(allocation_id), staleTime: Infinity, retryOnMount: false });
}

function allocationQuery(allocation_id: string) {
  return {
    queryKey: ["allocation", allocation_id],
    enabled: allocation_id !== "",
    queryFn: () => unwrap(client.GET("/api/v1/allocations/{allocation_id}", { params: { path: { allocation_id } } })),
  };
}

/** The certificates of the wipes that ended an allocation; while `wanted`. */
export function useWipeCertificates(allocation_id: string, wanted: boolean) {
  return useQuery({
    queryKey: ["wipe-certificates", allocation_id],
    enabled: wanted,
    queryFn: () =>
      everyPage((page_token) =>
        unwrap(client.GET("/api/v1/allocations/{allocation_id}/wipe-certificates", { params: { path: { allocation_id }, query: { page_token } } })).then(({ certificates: items = [], next_page_token: next }) => ({ items, next })),
      ),
  });
}

/** What limits the project, and how much of it is in use; while `wanted`. */
export function useQuotas(wanted = true) {
  const project_id = useProject();
  return useQuery({
    queryKey: ["quotas", project_id],
    enabled: wanted,
    queryFn: () => unwrap(client.GET("/api/v1/quotas", { params: { query: { project_id } } })),
    refetchInterval: SLOW_MS,
  });
}

/** The usage intervals of the project, or of one allocation of `project`, that reach beyond a moment, with the totals that the server added up. */
export function useUsage({ allocation_id = "", project, from }: { allocation_id?: string; project?: string; from?: number } = {}) {
  const own = useProject();
  const project_id = project ?? own;
  const filter = from === undefined ? "" : endedSince(from);
  return useQuery({
    queryKey: ["usage", project_id, "of", allocation_id, filter],
    queryFn: async () => {
      const pages = await allPages((page_token) => client.GET("/api/v1/usage", { params: { query: { project_id, allocation_id, filter, page_size: PAGE, page_token } } }));
      return { intervals: pages.flatMap(({ intervals = [] }) => intervals), totals: pages[0]?.totals ?? [] };
    },
    refetchInterval: allocation_id ? SLOW_MS : USAGE_MS,
  });
}

export function useSkus() {
  return useQuery({
    queryKey: ["skus"],
    queryFn: () => everyPage((page_token) => unwrap(client.GET("/api/v1/skus", { params: { query: { page_size: WHOLE, page_token } } })).then(({ skus: items = [], next_page_token: next }) => ({ items, next }))),
    staleTime: 30_000,
  });
}

export function useRegions() {
  return useQuery({
    queryKey: ["regions"],
    queryFn: () => everyPage((page_token) => unwrap(client.GET("/api/v1/regions", { params: { query: { page_size: WHOLE, page_token } } })).then(({ regions: items = [], next_page_token: next }) => ({ items, next }))),
    refetchInterval: 30_000,
  });
}

export function useImages() {
  return useQuery({
    queryKey: ["images"],
    queryFn: () => everyPage((page_token) => unwrap(client.GET("/api/v1/images", { params: { query: { page_size: WHOLE, page_token } } })).then(({ images: items = [], next_page_token: next }) => ({ items, next }))),
    staleTime: 30_000,
  });
}

/** How many launches fit now: on what is open, and on what is reserved for the project. */
export function useAvailability() {
  const project_id = useProject();
  return useQuery({
    queryKey: ["availability", project_id],
    queryFn: () => unwrap(client.GET("/api/v1/availability", { params: { query: { project_id } } })).then((page) => page.availability ?? []),
    refetchInterval: CALM_MS,
  });
}

/** A host with its last report, which no watch tells. */
export function useNode(node_id: string) {
  return useQuery({
    queryKey: ["node", node_id],
    queryFn: () => unwrap(client.GET("/api/v1/admin/nodes/{node_id}", { params: { path: { node_id } } })),
    refetchInterval: SLOW_MS,
  });
}

/** How operators want each host used, by the host's id. */
export function usePlacements() {
  return useQuery({
    queryKey: ["placements"],
    queryFn: () =>
      everyPage((page_token) => unwrap(client.GET("/api/v1/admin/node-placements", { params: { query: { page_size: WHOLE, page_token } } })).then(({ nodes: items = [], next_page_token: next }) => ({ items, next }))).then(
        (nodes) => new Map(nodes.map((node) => [node.node_id ?? "", node])),
      ),
    refetchInterval: SLOW_MS,
  });
}

/** How operators want a host used; `null` while placement does not know it, as before its first report. */
export function usePlacement(node_id: string) {
  return useQuery({
    queryKey: ["placement", node_id],
    queryFn: () =>
      unwrap(client.GET("/api/v1/admin/nodes/{node_id}/placement", { params: { path: { node_id } } })).catch((error: unknown) => {
        if (error instanceof Problem && error.status === 404) return null;
        throw error;
      }),
    refetchInterval: CALM_MS,
  });
}

/** What would have to stop for a host to be empty, and where it would fit; asked once, and again when looked at again. */
export function useEvacuationPlan(node_id: string) {
  return useQuery({
    queryKey: ["evacuation", node_id],
    queryFn: () => unwrap(client.GET("/api/v1/admin/capacity:evacuationPlan", { params: { query: { node_ids: [node_id] } } })),
    staleTime: 0,
  });
}

/** On how many hosts a request would fit, and what keeps the others out; while `wanted`. */
export function useExplanation(asked: ExplanationQuery, wanted = true) {
  return useQuery(explanationOf(useProject(), asked, wanted));
}

/** The same of several at once, in their order; nothing for those that are not known yet. */
export function useExplanations(asked: ExplanationQuery[]) {
  const project_id = useProject();
  return useQueries({ queries: asked.map((one) => explanationOf(project_id, one, true)) }).map(({ data }) => data);
}

function explanationOf(project_id: string, asked: ExplanationQuery, wanted: boolean) {
  const query = { project_id, ...queryOf(asked) };
  return queryOptions({
    queryKey: ["explanation", query],
    enabled: wanted && asked.region_code !== "" && asked.sku !== "",
    queryFn: () => unwrap(client.GET("/api/v1/availability:explain", { params: { query } })),
    refetchInterval: SLOW_MS,
  });
}

const discoveryOf = (node_id: string) =>
  queryOptions({
    queryKey: ["discovery", node_id],
    queryFn: () =>
      unwrap(client.GET("/api/v1/admin/nodes/{node_id}/slice-topology/discovery", { params: { path: { node_id } } })).catch(
        (error: unknown) => {
          if (error instanceof Problem && error.reason === "DISCOVERY_NOT_FOUND") return null;
          throw error;
        },
      ),
    refetchInterval: ({ state }) => (["queued", "running"].includes(state.data?.state ?? "") ? LIVE_MS : SLOW_MS),
  });

/** The latest discovery; `null` when there was none yet. */
export function useDiscovery(node_id: string) {
  return useQuery(discoveryOf(node_id));
}

/** The latest discoveries of several nodes by their ids; without those that are not loaded yet, and of nodes that have none. */
export function useDiscoveries(node_ids: string[]): Map<string, Discovery> {
  const found = useQueries({ queries: node_ids.map(discoveryOf) });
  return new Map(found.flatMap(({ data }, index) => (data ? [[node_ids[index] ?? "", data] as const] : [])));
}

export function useNodeImages(node_id: string) {
  return useQuery({
    queryKey: ["node-images", node_id],
    queryFn: () =>
      everyPage((page_token) => unwrap(client.GET("/api/v1/admin/nodes/{node_id}/image-cache", { params: { path: { node_id }, query: { page_size: WHOLE, page_token } } })).then(({ images: items = [], next_page_token: next }) => ({ items, next }))),
    refetchInterval: SLOW_MS,
  });
}
