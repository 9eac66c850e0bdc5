/** Which allocations the list shows, and in which order. */
import { type ById, later } from "../../api/watches";
import type { Allocation } from "../../api/types";
import { isEnded } from "./state";

interface Source {
  loaded: boolean;
  failed: boolean;
}

/** What to show in place of rows: "empty" only once every source is loaded. */
export function insteadOfRows(parts: Source[]): "empty" | "loading" | undefined {
  if (parts.every(({ loaded }) => loaded)) return "empty";
  return parts.some(({ failed }) => failed) ? undefined : "loading";
}

/**
 * The newest first: what the watch knows, and the listed pages where history is wanted. What has ended is shown
 * without it only if it has been `seen` before its end; `seen` is brought up to date.
 */
export function rowsOf(watched: ById<Allocation>, listed: Allocation[], history: boolean, seen: Set<string>): Allocation[] {
  const rows = new Map(listed.map((allocation) => [allocation.id ?? "", allocation]));
  for (const [id, allocation] of Object.entries(watched)) {
    if (!isEnded(allocation)) seen.add(id);
    if (history || seen.has(id)) rows.set(id, later(rows.get(id), allocation));
  }
  const made = (allocation: Allocation) => Date.parse(allocation.metadata?.create_time ?? "") || 0;
  return [...rows.values()].sort((a, b) => made(b) - made(a) || (b.id ?? "").localeCompare(a.id ?? ""));
}
