/** Lists of the API that come in pages: one page after the other on demand, or all of them for a choice. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { isId, plural } from "../lib/text";

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

/** A text without what cannot be quoted: a backslash is in no name. */
const quotable = (text: string) => text.replaceAll("\\", "");

/** That a field has this part. */
function partOf(field: string, text: string): string {
  return `${field}:"${text.replaceAll('"', '\\"')}"`;
}

/** Most characters of a search: however many of them are quoted, in three fields and beside another comparison, the API takes it. */
export const MOST_SEARCHED = 120;

/** Those of a list that have this part in one of some fields, as a filter of the API; empty: all. Too long a text is cut. */
export function textFilter(fields: string[], search: string): string {
  const text = [...quotable(search.trim())].slice(0, MOST_SEARCHED).join("");
  return text && `(${fields.map((field) => partOf(field, text)).join(" OR ")})`;
}

/** What a filter of the API may have, beside each other (services/common/src/select). */
const MOST_COMPARISONS = 32;
const MOST_CHARACTERS = 1000;
const OR = " OR ";
const AND = " AND ";

/** What words of a search stand for beside texts, such as projects. */
export interface Named {
  /** A comparison for each that a word names. */
  of: (word: string) => string[];
  /** Their words: “projects and nodes”. */
  nouns: string;
  /** How else the reader finds one of them. */
  instead: string;
}

/** A search as a filter of the API. */
export interface Searched {
  filter: string;
  /** What of the search the filter has not, since the API takes no longer ones, for the reader; empty: nothing. */
  cut: string;
}

/**
 * Those of a list that have every word of a search as a part of one of some fields, as the whole of an id, or as the name of
 * something that the list has the id of; and that fulfil the comparisons of `rest`. Words, and what they name, have their
 * places in the filter one after the other, and what finds none is cut.
 */
export function wordsFilter(fields: string[], search: string, { ids = [], named, rest = [] }: { ids?: string[]; named?: Named; rest?: string[] } = {}): Searched {
  const others = rest.filter(Boolean);
  const words = [...new Set(search.split(/\s+/).map(quotable).filter(Boolean))];
  let comparisons = MOST_COMPARISONS - others.length;
  let characters = MOST_CHARACTERS + AND.length - others.reduce((sum, one) => sum + one.length + AND.length, 0);
  /** Takes the places of all of these, or of none. */
  const take = (these: string[], more = 0) => {
    const length = these.reduce((sum, one) => sum + one.length + OR.length, more);
    if (these.length > comparisons || length > characters) return false;
    comparisons -= these.length;
    characters -= length;
    return true;
  };
  const groups: { word: string; taken: string[]; left: string[] }[] = [];
  for (const word of words) {
    const left = named?.of(word) ?? [];
    const taken = [...fields.map((field) => partOf(field, word)), ...idsFilter(ids, word), ...left.splice(0, 1)];
    if (!take(taken, "()".length + AND.length - OR.length)) break;
    groups.push({ word, taken, left });
  }
  // in turn, so that no word takes what the others need
  for (let open = groups; open.length > 0; ) {
    open = open.filter(({ taken, left }) => {
      const [next] = left;
      if (next === undefined || !take([next])) return false;
      taken.push(next);
      left.shift();
      return true;
    });
  }
  const cut: string[] = [];
  if (groups.length < words.length) cut.push(groups.length === 0 ? "This search is too long to be applied. Shorten it." : `Only the first ${plural(groups.length, "word")} ${groups.length === 1 ? "is" : "are"} searched. Use fewer.`);
  if (named) {
    const lacking = groups.filter(({ left }) => left.length > 0);
    for (const { word, left } of lacking) {
      const all = named.of(word).length;
      const most = all - left.length;
      cut.push(`Only the first ${most} of ${all} ${named.nouns} with “${word}” in their name ${most === 1 ? "is" : "are"} searched.`);
    }
    if (lacking.length > 0) cut.push(named.instead);
  }
  return { filter: everyFilter(...groups.map(({ taken }) => `(${taken.join(OR)})`), ...others), cut: cut.join(" ") };
}

/** What an id stands for in a search: it is compared as a whole. */
function idsFilter(fields: string[], word: string): string[] {
  return isId(word) ? fields.map((field) => `${field} = ${word}`) : [];
}

interface Titled {
  id: string;
  slug: string;
  display_name?: string;
}

/** The projects whose name or display name has a word of a search. */
export function projectsFilter(projects: Titled[], word: string): string[] {
  const has = (name = "") => name.toLowerCase().includes(word.toLowerCase());
  return projects.filter(({ slug, display_name }) => has(slug) || has(display_name)).map(({ id }) => `project_id = ${id}`);
}

/** Projects as what words of a search name. */
export function namedProjects(projects: Titled[]): Named {
  return { of: (word) => projectsFilter(projects, word), nouns: "projects", instead: "Write more of the name." };
}

/** What all of these filters match; empty ones match all. */
export function everyFilter(...filters: string[]): string {
  return filters.filter(Boolean).join(AND);
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
