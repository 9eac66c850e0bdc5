/** The state of an allocation as a badge. */
import type { Allocation } from "../../api/types";
import { sentence } from "../../lib/text";
import { Badge, type Tone } from "../../ui/basics";

const TONES: Record<string, Tone> = {
  requested: "busy",
  queued: "busy",
  reserved: "busy",
  provisioning: "busy",
  active: "good",
  releasing: "warn",
  released: "idle",
  failed: "bad",
  running: "good",
  stopping: "warn",
  stopped: "idle",
  starting: "busy",
  rebooting: "busy",
  rescuing: "busy",
  rescued: "warn",
  unrescuing: "busy",
};

/** One word for state, queue and power: a queued request is "queued", an active allocation shows its power state. */
export function stateWord(allocation: Allocation): string {
  const { state = "unspecified", power = "unspecified" } = allocation.status ?? {};
  if (allocation.status?.queue) return "queued";
  return state === "active" && power !== "unspecified" && power !== "running" ? power : state;
}

export function StateBadge({ allocation }: { allocation: Allocation }) {
  const word = stateWord(allocation);
  return (
    <>
      <Badge tone={TONES[word] ?? "idle"}>{sentence(word)}</Badge>
      {isHostLost(allocation) && <Badge tone="bad">Host lost</Badge>}
    </>
  );
}

/** Its host does not answer, or was installed anew. */
export function isHostLost({ status }: Pick<Allocation, "status">): boolean {
  return status?.conditions?.some(({ type }) => type === "host_lost") ?? false;
}

/** Bare metal has no terminal and no power actions. */
export function isBaremetal(allocation: Allocation): boolean {
  return allocation.config?.capacity_shape === "baremetal";
}

/** Its VM runs, from its own disk or from a rescue image. */
export function isReachable({ status }: Pick<Allocation, "status">): boolean {
  return ["running", "rescued"].includes(status?.power ?? "");
}

export function isEnded(allocation: Allocation): boolean {
  return ["released", "failed"].includes(allocation.status?.state ?? "");
}

/** Powers on the way to another one. */
export const MOVING_POWERS: string[] = ["stopping", "starting", "rebooting", "rescuing", "unrescuing"];

/** An operation on it is running. */
export function isMoving({ status }: Allocation): boolean {
  return (
    ["requested", "reserved", "provisioning", "releasing"].includes(status?.state ?? "") ||
    MOVING_POWERS.includes(status?.power ?? "")
  );
}

/** Steps done and the running step's own share, as one number from 0 to 100; undefined when none is running. */
export function overallPercent(allocation: Allocation): number | undefined {
  const progress = allocation.status?.progress;
  const total = progress?.steps_total ?? 0;
  if (!progress || total === 0 || !isMoving(allocation)) return undefined;
  const done = Math.min(progress.steps_done ?? 0, total);
  const part = done < total ? Math.min(progress.percent ?? 0, 100) / 100 : 0;
  return ((done + part) / total) * 100;
}
