/** Usage of one project or of several. */
import { useQueries } from "@tanstack/react-query";
import { type Amount, amountOf, sum } from "../lib/money";
import { client, unwrap } from "./client";
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

type ServerTotal = NonNullable<Awaited<ReturnType<typeof allOf>>["totals"]>[number];

/** The totals of several projects, per currency. */
export function totalsOf(totals: ServerTotal[]): Total[] {
  const amounts = sum(totals.map(({ amount }) => amountOf(amount)));
  return amounts.map((amount) => ({
    amount,
    gpuMicroseconds: totals.filter((total) => total.amount?.currency_code === amount.currency).reduce((time, total) => time + Number(total.gpu_microseconds ?? 0), 0),
  }));
}
