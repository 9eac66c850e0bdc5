/** The counters of a pool as parts that add up to what is delivered. */
import type { components } from "../../api/schema";
import type { Part } from "../../ui/meter";

type Counts = components["schemas"]["scheduler.FleetCounts"];

/** Counters include one another: delivered, healthy, reserved, active. */
export function partsOfCounts(counts: Counts | undefined): Part[] {
  const number = (text: string | undefined) => Number(text ?? 0);
  const [delivered, healthy, reserved, active] = [number(counts?.delivered), number(counts?.healthy), number(counts?.reserved), number(counts?.active)];
  const less = (a: number, b: number) => Math.max(0, a - b);
  return [
    { label: "active", value: active, tone: "busy" },
    { label: "reserved", value: less(reserved, active), tone: "warn" },
    { label: "free", value: less(healthy, reserved), tone: "good" },
    { label: "not healthy", value: less(delivered, healthy), tone: "bad" },
  ];
}
