/** Queries and mutations of reservations, the queue and the capacity reports. */
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useSession } from "../session/session";
import { client, unwrap } from "./client";
import { WHOLE, everyPage } from "./pages";
import type { Priority, Reservation, ReservationConfig } from "./types";

const CALM_MS = 2000;
const SLOW_MS = 5000;
const MINUTE_MS = 60_000;
const PAGE = 100;

/** Who acts: a member of the current project, or an operator, who sees all projects. */
export type Side = "project" | "operator";

const PATHS = { project: "/api/v1/capacity-reservations", operator: "/api/v1/admin/capacity-reservations" } as const;

/** Those that a filter of the API selects, newest first, page by page. */
export function useReservations(side: Side, include_ended: boolean, filter = "") {
  const own = useSession()?.project ?? "";
  const project_id = side === "project" ? own : "";
  return useInfiniteQuery({
    queryKey: ["reservations", side, project_id, include_ended, filter],
    queryFn: ({ pageParam }) => unwrap(client.GET(PATHS[side], { params: { query: { project_id, include_ended, page_size: PAGE, page_token: pageParam, ...(filter && { filter }) } } })),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_page_token || undefined,
    refetchInterval: SLOW_MS,
  });
}

/** All that have not ended, to add up what they reserve. */
export function useRunningReservations(side: Side) {
  const own = useSession()?.project ?? "";
  const project_id = side === "project" ? own : "";
  return useQuery({
    queryKey: ["reservations", side, project_id, "running"],
    queryFn: () => everyPage((page_token) => unwrap(client.GET(PATHS[side], { params: { query: { project_id, include_ended: false, page_size: WHOLE, page_token } } })).then(({ reservations: items = [], next_page_token: next }) => ({ items, next }))),
    refetchInterval: SLOW_MS,
  });
}

const readReservation = (side: Side, reservation_id: string) => unwrap(client.GET(`${PATHS[side]}/{reservation_id}`, { params: { path: { reservation_id } } }));

/** One, with the launches that fit on its unused GPUs. */
export function useReservation(side: Side, reservation_id: string) {
  return useQuery({
    queryKey: ["reservation", side, reservation_id],
    queryFn: () => readReservation(side, reservation_id),
    refetchInterval: CALM_MS,
  });
}

/** Asks for it as it is from now on, not for what is being asked already; the page shows it, too. */
export function useReadReservation(side: Side, reservation_id: string): () => Promise<Reservation> {
  const queries = useQueryClient();
  return async () => {
    const now = await readReservation(side, reservation_id);
    queries.setQueryData(["reservation", side, reservation_id], now);
    return now;
  };
}

/** Shows the answer of a mutation at once and refreshes the lists. */
function useLearn(side: Side): (reservation: Reservation) => void {
  const queries = useQueryClient();
  return (reservation) => {
    queries.setQueryData(["reservation", side, reservation.id], reservation);
    void queries.invalidateQueries({ queryKey: ["reservations"] });
  };
}

export function useReserve(side: Side) {
  return useMutation({
    mutationFn: ({ key, ...body }: { key: string; config: ReservationConfig; gather: boolean }) =>
      unwrap(client.POST(PATHS[side], { params: { header: { "X-Idempotency-Key": key } }, body })),
    onSuccess: useLearn(side),
  });
}

export function useCancelReservation(side: Side, reservation_id: string) {
  return useMutation({
    mutationFn: (reason: string) => unwrap(client.POST(`${PATHS[side]}/{reservation_id}:cancel`, { params: { path: { reservation_id } }, body: { reason } })),
    onSuccess: useLearn(side),
  });
}

export const limitKey = (project_id: string) => ["reservation-limit", project_id];

/** How many GPUs the members of a project can reserve, and have reserved. */
export function useReservationLimit(project_id: string) {
  return useQuery({
    queryKey: limitKey(project_id),
    enabled: project_id !== "",
    queryFn: () => unwrap(client.GET("/api/v1/admin/projects/{project_id}/reservation-limit", { params: { path: { project_id } } })),
  });
}

export function putReservationLimit(project_id: string, max_gpus: number, etag?: string) {
  return unwrap(client.PUT("/api/v1/admin/projects/{project_id}/reservation-limit", { params: { path: { project_id } }, body: { max_gpus, etag } }));
}

/** The fleet's capacity over the last so many milliseconds, for each region and SKU. */
export function useCapacityHistory(length: number) {
  return useQuery({
    queryKey: ["capacity-history", length],
    queryFn: async () => {
      const now = Date.now();
      const period = { start_time: new Date(now - length).toISOString(), end_time: new Date(now).toISOString() };
      let step = 0;
      const buckets = await everyPage(async (page_token) => {
        const { buckets: items = [], bucket_seconds, next_page_token: next } = await unwrap(client.GET("/api/v1/admin/capacity:history", { params: { query: { ...period, page_size: WHOLE, page_token } } }));
        step = Number(bucket_seconds ?? 60) * 1000;
        return { items, next };
      });
      return { buckets, step, from: now - length, to: now };
    },
    refetchInterval: MINUTE_MS,
  });
}

export interface DefragmentationQuery {
  region_code: string;
  sku: string;
  gpu_count: number;
  max_moves: number;
}

/** The fewest moves that would let more launches fit; runs on request. */
export function useDefragmentation(wanted: DefragmentationQuery | undefined) {
  return useQuery({
    queryKey: ["defragmentation", wanted],
    enabled: wanted !== undefined,
    queryFn: () => unwrap(client.GET("/api/v1/admin/capacity:defragmentation", { params: { query: wanted ?? { region_code: "", sku: "", gpu_count: 0 } } })),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** Nodes available for bare metal, and the moves that would free more. */
export function usePreservation() {
  return useQuery({
    queryKey: ["preservation"],
    queryFn: () => unwrap(client.GET("/api/v1/admin/capacity:preservation", {})),
    staleTime: MINUTE_MS,
  });
}

/** The queued requests of a region in queue order, page by page. */
export function useQueue(region_code: string) {
  return useInfiniteQuery({
    queryKey: ["queue", region_code],
    enabled: region_code !== "",
    queryFn: ({ pageParam }) => unwrap(client.GET("/api/v1/admin/queue", { params: { query: { region_code, page_size: PAGE, page_token: pageParam } } })),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_page_token || undefined,
    refetchInterval: SLOW_MS,
  });
}

export const priorityKey = (project_id: string) => ["project-priority", project_id];

/** The priority of a project, without what waiting adds to that of a request. */
export function useProjectPriority(project_id: string) {
  return useQuery({
    queryKey: priorityKey(project_id),
    enabled: project_id !== "",
    queryFn: () => unwrap(client.GET("/api/v1/admin/projects/{project_id}/priority", { params: { path: { project_id } } })),
  });
}

/** Sets the priority of a project's requests, queued ones included. */
export function putProjectPriority(project_id: string, priority: Priority, etag?: string) {
  return unwrap(client.PUT("/api/v1/admin/projects/{project_id}/priority", { params: { path: { project_id } }, body: { priority, etag } }));
}
