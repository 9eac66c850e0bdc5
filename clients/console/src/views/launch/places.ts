/** Where the launches of this browser were asked to run: of an allocation the API does not tell it. */
import type { Allocation, PlacementConstraints } from "../../api/types";

const KEY = "gpuaas.places";
const MOST = 200;

type Remembered = [id: string, placement: PlacementConstraints];

function read(): Remembered[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? (kept.filter(Array.isArray) as Remembered[]) : [];
  } catch {
    return [];
  }
}

/** The latest are kept, those without constraints too: that there were none is known then. */
export function rememberPlace(made: Allocation[], placement: PlacementConstraints = {}): void {
  const latest = made.map(({ id = "" }): Remembered => [id, placement]);
  try {
    localStorage.setItem(KEY, JSON.stringify([...latest, ...read()].slice(0, MOST)));
  } catch {
    // then it is chosen again
  }
}

/** Nothing: it was launched elsewhere, or too long ago. */
export function rememberedPlace(allocation_id: string): PlacementConstraints | undefined {
  return read().find(([id]) => id === allocation_id)?.[1];
}
