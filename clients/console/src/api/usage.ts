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
const SLOW_MS = 5000;

async function allOf(project_id: string) {
  const intervals: UsageInterval[] = [];
  let page_token = "";
  for (;;) {
    const page = await unwrap(client.GET("/api/v1/usage", { params: { query: { project_id, allocation_id: "", page_size: PAGE, page_token } } }));
    intervals.push(...(page.intervals ?? []));
    page_token = page.next_page_token ?? "";
    if (!page_token) return { intervals, totals: page.totals ?? [] };
  }
}

export interface Total {
  amount: Amount;
  gpuMicroseconds: number;
  /** What of it is not charged. */
  creditedGpuMicroseconds: number;
}

/** Newest first, with the totals per currency that the server added up. */
export function useUsageOf(projects: string[]) {
  const found = useQueries({
    queries: projects.map((project) => ({ queryKey: ["usage", project, ""], queryFn: () => allOf(project), refetchInterval: SLOW_MS })),
    combine: (results) => ({
      intervals: results.flatMap(({ data }) => data?.intervals ?? []).sort((a, b) => (b.start_time ?? "").localeCompare(a.start_time ?? "")),
      totals: totalsOf(results.flatMap(({ data }) => data?.totals ?? [])),
      isPending: results.some(({ isPending }) => isPending),
      error: results.find(({ error }) => error)?.error,
      refetch: () => results.forEach(({ refetch }) => void refetch()),
    }),
  });
  return found;
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

type ServerTotal = NonNullable<Awaited<ReturnType<typeof allOf>>["totals"]>[number];

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
