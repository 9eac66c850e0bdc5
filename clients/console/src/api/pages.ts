/** Lists of the API that come in pages: one page after the other on demand, or all of them for a choice. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { isId } from "../lib/text";

/** Rows of a page of a list that is shown. */
export const SHOWN = 100;
/** Rows of a page of a list that is wanted whole: the most that the API gives. */
export const WHOLE = 500;

export interface Page<T> {
  items: T[];
  next: string | undefined;
}

/** What was loaded so far, for `Loaded` and `ShowMore`. */
export interface Paged<T> {
  data: T[] | undefined;
  error: unknown;
  refetch: () => unknown;
  /** There are more than these. */
  more: boolean;
  loadingMore: boolean;
  loadMore: () => void;
}

/** Those of a list that have this part in one of some fields, as a filter of the API; empty: all. A backslash is in no name, and cannot be quoted. */
export function textFilter(fields: string[], search: string): string {
  const text = search.trim().replaceAll("\\", "").replaceAll('"', '\\"');
  return text && `(${fields.map((field) => `${field}:"${text}"`).join(" OR ")})`;
}

/** Most comparisons beside those of texts, for each word: the API takes 32 in all. */
const OTHERS = 6;

/** Those of a list that have every word of a search as a part of one of some fields, or fulfil one of the comparisons that it stands for. */
export function wordsFilter(fields: string[], search: string, others: (word: string) => string[] = () => []): string {
  const words = search.split(/\s+/).filter((word) => textFilter(["x"], word) !== "");
  return everyFilter(...words.map((word) => `(${[textFilter(fields, word).slice(1, -1), ...others(word).slice(0, OTHERS)].join(" OR ")})`));
}

/** What an id stands for in a search: it is compared as a whole. */
export function idsFilter(fields: string[], word: string): string[] {
  return isId(word) ? fields.map((field) => `${field} = ${word}`) : [];
}

/** The projects whose name has a word of a search. */
export function projectsFilter(projects: { id: string; slug: string }[], word: string): string[] {
  return projects.filter(({ slug }) => slug.toLowerCase().includes(word.toLowerCase())).map(({ id }) => `project_id = ${id}`);
}

/** What all of these filters match; empty ones match all. */
export function everyFilter(...filters: string[]): string {
  return filters.filter(Boolean).join(" AND ");
}

/** A list page by page; asked for anew in this interval, in milliseconds. */
export function usePages<T>(queryKey: string[], load: (page_token: string) => Promise<Page<T>>, { enabled = true, refetchInterval }: { enabled?: boolean; refetchInterval?: number } = {}): Paged<T> {
  const found = useInfiniteQuery({
    queryKey,
    enabled,
    ...(refetchInterval !== undefined && { refetchInterval }),
    queryFn: ({ pageParam }) => load(pageParam),
    initialPageParam: "",
    getNextPageParam: ({ next }) => next || undefined,
  });
  return {
    data: found.data?.pages.flatMap(({ items }) => items),
    error: found.error,
    refetch: () => found.refetch(),
    more: found.hasNextPage,
    loadingMore: found.isFetchingNextPage,
    loadMore: () => void found.fetchNextPage(),
  };
}

/** All pages of a list, in order. */
export async function everyPage<T>(load: (page_token: string) => Promise<Page<T>>): Promise<T[]> {
  const all: T[] = [];
  let token = "";
  for (;;) {
    const { items, next } = await load(token);
    all.push(...items);
    if (!next) return all;
    token = next;
  }
}
