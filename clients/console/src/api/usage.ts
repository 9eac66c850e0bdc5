/** Usage of one project or of several. */
import { keepPreviousData, useQueries } from "@tanstack/react-query";
import { nameOf } from "../lib/allocation-name";
import { type Amount, amountOf, sum } from "../lib/money";
import { roleMay } from "../session/roles";
import type { Project } from "../session/session";
import { client, unwrap } from "./client";
import { WHOLE, everyPage } from "./pages";
import type { UsageInterval } from "./types";

const PAGE = 200;
/** Time between two reads, in milliseconds: each has the server add up all that a project ever used. */
export const USAGE_MS = 60_000;

/** Of usage what reaches beyond a moment, as a filter of the API; what is running has no end. */
export const endedSince = (from: number) => `NOT end_time < ${new Date(from).toISOString()}`;

const intervalsIn = (project_id: string, filter: string) =>
  everyPage((page_token) =>
    unwrap(client.GET("/api/v1/usage", { params: { query: { project_id, allocation_id: "", filter, page_size: PAGE, page_token } } })).then(({ intervals: items = [], next_page_token: next }) => ({ items, next })),
  );

const totalsIn = (project_id: string) =>
  unwrap(client.GET("/api/v1/usage", { params: { query: { project_id, allocation_id: "", page_size: 1, page_token: "" } } })).then(({ totals = [] }) => totals);

export interface Total {
  amount: Amount;
  gpuMicroseconds: number;
  /** What of it is not charged. */
  creditedGpuMicroseconds: number;
}

/** The intervals of projects that reach beyond a moment, newest first; none while there is no moment. */
export function useUsageOf(projects: string[], from: number | undefined) {
  const filter = from === undefined ? "" : endedSince(from);
  return useQueries({
    queries: projects.map((project) => ({ queryKey: ["usage", project, "intervals", filter], enabled: from !== undefined, queryFn: () => intervalsIn(project, filter), refetchInterval: USAGE_MS })),
    combine: (results) => ({
      intervals: results.flatMap(({ data }): UsageInterval[] => data ?? []).sort((a, b) => (b.start_time ?? "").localeCompare(a.start_time ?? "")),
      isLoading: results.some(({ isLoading }) => isLoading),
      error: results.find(({ error }) => error)?.error,
      refetch: () => results.forEach(({ refetch }) => void refetch()),
    }),
  });
}

/** What projects ever used, per currency, as the server added it up. */
export function useTotalsOf(projects: string[]) {
  return useQueries({
    queries: projects.map((project) => ({ queryKey: ["usage", project, "totals"], queryFn: () => totalsIn(project), refetchInterval: USAGE_MS })),
    combine: (results) => ({
      totals: totalsOf(results.flatMap(({ data }) => data ?? [])),
      isLoading: results.some(({ isLoading }) => isLoading),
      error: results.find(({ error }) => error)?.error,
      refetch: () => results.forEach(({ refetch }) => void refetch()),
    }),
  });
}

/** What is read of the allocations of a project to name them, those that have ended, too. */
const NAMES = "allocations.id,allocations.display_name,allocations.config.name,next_page_token";

async function namesIn(project_id: string): Promise<[string, string][]> {
  const all = await everyPage((page_token) =>
    unwrap(client.GET("/api/v1/allocations", { params: { query: { project_id, include_ended: true, page_size: WHOLE, page_token, read_mask: NAMES } } })).then(({ allocations: items = [], next_page_token: next }) => ({ items, next })),
  );
  return all.map((one) => [one.id ?? "", nameOf(one)]);
}

/**
 * What the allocations of usage are called, by their ids; without those that cannot be read, as by the role billing. The names
 * of a project are asked for anew when an allocation of it is used for the first time.
 */
export function useNamesOf(projects: Project[], intervals: UsageInterval[]): { names: Map<string, string>; isLoading: boolean } {
  return useQueries({
    queries: projects.map(({ id, role }) => {
      const used = new Set(intervals.filter(({ project_id }) => project_id === id).map(({ allocation_id }) => allocation_id));
      return { queryKey: ["allocations", id, "names", used.size], enabled: used.size > 0 && roleMay(role, "read"), queryFn: () => namesIn(id), placeholderData: keepPreviousData };
    }),
    combine: (results) => ({ names: new Map(results.flatMap(({ data }) => data ?? [])), isLoading: results.some(({ isLoading }) => isLoading) }),
  });
}

type ServerTotal = Awaited<ReturnType<typeof totalsIn>>[number];

/** The totals of several projects, per currency. */
export function totalsOf(totals: ServerTotal[]): Total[] {
  return sum(totals.map(({ amount }) => amountOf(amount))).map((amount) => {
    const own = totals.filter((total) => total.amount?.currency_code === amount.currency);
    return {
      amount,
      gpuMicroseconds: own.reduce((time, total) => time + Number(total.gpu_microseconds ?? 0), 0),
      creditedGpuMicroseconds: own.reduce((time, total) => time + Number(total.credited_gpu_microseconds ?? 0), 0),
    };
  });
}
