/** The counters of a pool as parts that add up to what is delivered. */
import type { components } from "@gpuaas/sdk";
import type { FleetNode } from "../../api/types";
import type { Part } from "../../ui/meter";

type Counts = components["schemas"]["scheduler.FleetCounts"];
type Pool = Pick<FleetNode, "region_code" | "hardware_type">;

const number = (text: string | undefined) => Number(text ?? 0);
const less = (a: number, b: number) => Math.max(0, a - b);
const unused = (counts: Counts | undefined) => less(number(counts?.healthy), number(counts?.reserved));

/** GPUs of a node that are healthy and in no use, and that no launch gets nevertheless. */
export interface OutOfService {
  id: string;
  hostname: string;
  gpus: number;
  /** Such as "cordoned: new cables". */
  reason: string;
}

/** Those of a pool: its nodes that are cordoned, draining, in maintenance, or not ready. */
export function outOfServiceOf({ region_code, hardware_type }: Pool, nodes: FleetNode[]): OutOfService[] {
  return nodes
    .filter((node) => node.region_code === region_code && (node.hardware_type ?? "") === (hardware_type ?? "") && !!node.reason)
    .map(({ id = "", hostname = "", gpus, reason = "" }) => ({ id, hostname, gpus: unused(gpus), reason }))
    .filter(({ gpus }) => gpus > 0);
}

/** Counters include one another: delivered, healthy, reserved, active. What is out of service is not free. */
export function partsOfCounts(counts: Counts | undefined, outOfService: OutOfService[] = []): Part[] {
  const [delivered, healthy, reserved, active] = [number(counts?.delivered), number(counts?.healthy), number(counts?.reserved), number(counts?.active)];
  // counters and nodes are read one after the other
  const held = Math.min(unused(counts), outOfService.reduce((sum, { gpus }) => sum + gpus, 0));
  return [
    { label: "active", value: active, tone: "busy" },
    { label: "reserved", value: less(reserved, active), tone: "warn" },
    { label: "free", value: unused(counts) - held, tone: "good" },
    { label: "out of service", value: held, tone: "idle" },
    { label: "not healthy", value: less(delivered, healthy), tone: "bad" },
  ];
}
