import { InfiniteQueryObserver, QueryClient } from "@tanstack/react-query";
import { expect, it } from "vitest";
import { type Entry, merged, newEntries, openedPages } from "./history";
import type { Page } from "./pages";

const at = (second: number, of = "") => ({ time: `2026-01-01T00:00:${String(second).padStart(2, "0")}Z`, of });
const seconds = (entries: Entry[]) => entries.map(({ time = "" }) => Number(time.slice(17, 19)));

/** A history in pages of three, whose tokens say after which entry they begin. */
function server(times: number[]) {
  const entries = times.map((second) => at(second));
  const asked: string[] = [];
  const load = (token: string): Promise<Page<Entry>> => {
    asked.push(token);
    const begin = token === "" ? 0 : entries.findIndex(({ time }) => time === token) + 1;
    const items = entries.slice(begin, begin + 3);
    return Promise.resolve({ items, next: begin + 3 < entries.length ? items[2]?.time : undefined });
  };
  return { asked, load, add: (second: number) => void entries.unshift(at(second)) };
}

it("what is new of a history is one request, however many pages are open, and none is lost between them", async () => {
  const { asked, load, add } = server([9, 8, 7, 6, 5, 4, 3, 2, 1]);
  const client = new QueryClient();
  const key = ["a-history"];
  const shown = () => seconds(merged(client.getQueryData(newEntries(key, load).queryKey) ?? [], client.getQueryData(openedPages(key, load).queryKey)?.pages.flatMap(({ items }) => items) ?? []));
  await client.fetchInfiniteQuery({ ...openedPages(key, load), pages: 2 });
  expect([asked.splice(0).length, shown()]).toEqual([2, [9, 8, 7, 6, 5, 4]]);

  const poll = () => client.fetchQuery({ ...newEntries(key, load), staleTime: 0 });
  await poll();
  add(10);
  await poll();
  expect([asked.splice(0), shown()]).toEqual([["", ""], [10, 9, 8, 7, 6, 5, 4]]);
  // more than a page of them: from the newest back to what is known
  for (const second of [11, 12, 13]) add(second);
  await poll();
  expect(shown()).toEqual([13, 12, 11, 10, 9, 8, 7, 6, 5, 4]);
  asked.length = 0;
  await poll();
  expect(asked).toHaveLength(1);

  // the next page begins where the last one that was opened ended
  const opened = new InfiniteQueryObserver(client, openedPages(key, load));
  await opened.fetchNextPage();
  expect([asked.at(-1), shown()]).toEqual([at(4).time, [13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]]);
});

it("a new entry that is on a later page has its place by its time, once", () => {
  const opened = [at(9), at(8), at(10), at(7)];
  expect(seconds(merged([], opened))).toEqual([10, 9, 8, 7]);
  expect(seconds(merged([at(10), at(9), at(8)], opened))).toEqual([10, 9, 8, 7]);
  // two that are alike are two
  const twice = [at(5), at(5)];
  for (const [newer, older] of [[twice, twice], [twice, []], [[], twice], [[at(5)], twice]] as const) expect(merged([...newer], [...older])).toHaveLength(2);
  // of one moment: as they were told
  const same = [at(5, "b"), at(5, "a")];
  expect(merged([same[0]!], same)).toEqual(same);
});

it("times are compared by their fractions", () => {
  const times = ["2026-01-01T00:00:01.5Z", "2026-01-01T00:00:01.25Z", "2026-01-01T00:00:01.000001Z", "2026-01-01T00:00:01Z"].map((time) => ({ time }));
  expect(merged([], [...times].reverse())).toEqual(times);
});
