/** Histories of the API: lists that only grow, the newest first. What is new is asked for again and again, what was loaded stays. */
import { type InfiniteData, infiniteQueryOptions, queryOptions, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Page, Paged } from "./pages";

export interface Entry {
  time?: string;
}

type Load<T> = (page_token: string) => Promise<Page<T>>;

const itemsOf = <T>(pages: InfiniteData<Page<T>> | undefined): T[] => pages?.pages.flatMap(({ items }) => items) ?? [];

/** A time of the API as a text that sorts: with nine digits of the second. */
const sortable = (time = "") => time.replace(/(?:\.(\d+))?Z$/, (_, fraction: string = "") => `.${fraction.padEnd(9, "0")}`);

/**
 * Two parts of a history that overlap, as one: what is in both is there once. Entries have no ids; two of one part that are
 * alike are two. Sorted, since what is new of one of several sources may be on a later page.
 */
export function merged<T extends Entry>(newer: T[], older: T[]): T[] {
  const counts = new Map<string, number>();
  for (const entry of newer.map((one) => JSON.stringify(one))) counts.set(entry, (counts.get(entry) ?? 0) + 1);
  const others = older.filter((one) => {
    const entry = JSON.stringify(one);
    const left = counts.get(entry) ?? 0;
    counts.set(entry, left - 1);
    return left <= 0;
  });
  const timed = [...newer, ...others].map((entry) => ({ entry, at: sortable(entry.time) }));
  return timed.sort((one, other) => (one.at === other.at ? 0 : one.at < other.at ? 1 : -1)).map(({ entry }) => entry);
}

/** The newest entries, page by page as far back as what is known begins. */
async function newest<T extends Entry>(load: Load<T>, known: T | undefined): Promise<T[]> {
  const found: T[] = [];
  const from = sortable(known?.time);
  let token = "";
  for (;;) {
    const { items, next } = await load(token);
    found.push(...items);
    if (!next || items.some(({ time }) => sortable(time) < from)) return found;
    token = next;
  }
}

/** The pages that the reader has opened; the place of the next one stays where it is. */
export function openedPages<T extends Entry>(queryKey: string[], load: Load<T>) {
  return infiniteQueryOptions({
    queryKey,
    queryFn: ({ pageParam }) => load(pageParam),
    initialPageParam: "",
    getNextPageParam: ({ next }) => next || undefined,
    staleTime: Infinity,
  });
}

/** What has come since the pages were opened. */
export function newEntries<T extends Entry>(opened: string[], load: Load<T>) {
  const queryKey = [...opened, "new"];
  return queryOptions({
    queryKey,
    queryFn: async ({ client }) => {
      const before = client.getQueryData<T[]>(queryKey) ?? [];
      const [known] = merged(before, itemsOf(client.getQueryData<InfiniteData<Page<T>>>(opened)));
      return merged(await newest(load, known), before);
    },
    initialData: [] as T[],
  });
}

/** A history page by page; what is new of it is asked for in this interval, in milliseconds, while it is `wanted`. */
export function useHistory<T extends Entry>(queryKey: string[], load: Load<T>, { wanted = true, interval }: { wanted?: boolean; interval: number }): Paged<T> {
  const opened = useInfiniteQuery({ ...openedPages(queryKey, load), enabled: wanted });
  const since = useQuery({ ...newEntries(queryKey, load), enabled: wanted && opened.isSuccess, staleTime: interval, refetchInterval: interval });
  const data = useMemo(() => opened.data && merged(since.data, itemsOf(opened.data)), [opened.data, since.data]);
  return {
    data,
    error: opened.error ?? since.error,
    refetch: () => (opened.error ? opened.refetch() : since.refetch()),
    more: opened.hasNextPage,
    loadingMore: opened.isFetchingNextPage,
    loadMore: () => void opened.fetchNextPage(),
  };
}
