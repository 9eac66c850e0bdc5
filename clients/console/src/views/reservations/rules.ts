/** What a reservation is at this moment, and what may be asked for: pure decisions. */
import type { Side } from "../../api/capacity";
import type { Region, Reservation, ReservationConfig } from "../../api/types";
import { fromField } from "../../lib/time";
import { nameProblem, plural } from "../../lib/words";
import type { Tone } from "../../ui/basics";
import { type Part, partsText } from "../../ui/meter";

export const TONES: Record<string, Tone> = { scheduled: "idle", gathering: "warn", active: "good", ended: "idle", canceled: "idle" };

export function isOver({ status }: Reservation): boolean {
  return status?.state === "ended" || status?.state === "canceled";
}

/** GPUs that it is for: those that were given back unused are not its own any more. */
export function sizeOf({ config, status }: Reservation): number {
  return Math.max(0, (config?.gpu_count ?? 0) - (status?.released_gpus ?? 0));
}

/** The reserved GPUs by what becomes of them now. */
export function partsOf(reservation: Reservation): Part[] {
  const { reserved_gpus = 0, used_gpus = 0, unused_gpus = 0, unavailable_gpus = 0 } = reservation.status ?? {};
  return [
    { label: "in use", value: used_gpus, tone: "busy" },
    { label: "unused", value: unused_gpus, tone: "good" },
    { label: "unavailable", value: unavailable_gpus, tone: "bad" },
    { label: "missing", value: Math.max(0, sizeOf(reservation) - reserved_gpus), tone: "idle", hollow: true },
  ];
}

/** The same over several reservations, without those that hold nothing by their nature. */
export function totalsOf(reservations: Reservation[]): Part[] {
  const running = reservations.filter(({ status }) => status?.state === "active" || status?.state === "gathering");
  return partsOf({}).map((part, index) => ({ ...part, value: running.reduce((sum, one) => sum + (partsOf(one)[index]?.value ?? 0), 0) }));
}

/** How its GPUs are used, in a few words. */
export function usageText(reservation: Reservation): string {
  if (isOver(reservation)) return plural(reservation.config?.gpu_count ?? 0, "GPU");
  const size = plural(sizeOf(reservation), "GPU");
  return reservation.status?.state === "scheduled" ? `${size}, none held yet` : `${size}: ${partsText(partsOf(reservation))}`;
}

/** Share of its window that has passed, from 0 to 100. */
export function passedPercent({ config }: Reservation, now: number): number {
  const [start, end] = [Date.parse(config?.start_time ?? ""), Date.parse(config?.end_time ?? "")];
  return end > start ? Math.max(0, Math.min(100, ((now - start) / (end - start)) * 100)) : 0;
}

/** Whether the one who looks may end it: what an operator made for a project, only an operator ends. */
export function mayEnd(side: Side, reservation: Reservation): boolean {
  return !isOver(reservation) && (side === "operator" || !!reservation.metadata?.made_by_project);
}

/** Most GPUs, and the longest window and the latest begin, that are taken. */
export const MOST_GPUS = 1024;
export const MOST_DAYS = 90;
const DAY_MS = 86_400_000;

/** After how long without use a GPU is given back; 0: what the site says of what a project reserves by itself, else never. */
export function unusedOf(side: Side): { value: number; label: string }[] {
  return [
    { value: 0, label: side === "operator" ? "Never, keep all of it" : "As long as the site allows" },
    { value: 1800, label: "30 minutes" },
    { value: 7200, label: "2 hours" },
    { value: 28_800, label: "8 hours" },
    { value: 86_400, label: "1 day" },
  ];
}

/** What could be done when so many cannot be reserved now: never fewer than `least`, and a region only that is open. */
export function waysOf({ gpus, region }: Pick<Draft, "gpus" | "region">, least: number, regions: Region[]): string[] {
  const ways: [boolean, string][] = [
    [Number(gpus) > least, "ask for fewer GPUs"],
    [regions.some(({ code, enabled }) => enabled && code !== region), "choose another region"],
    [true, "wait for others to release theirs"],
  ];
  return ways.filter(([open]) => open).map(([, way]) => way);
}

export interface Draft {
  project: string;
  name: string;
  region: string;
  sku: string;
  gpus: string;
  later: boolean;
  start: string;
  end: string;
  unused: number;
  gather: boolean;
}

/** What is wrong with a draft, field by field; `least` is the smallest count that the SKU sells. */
export function problemsOf(draft: Draft, side: Side, least: number, now: number): Partial<Record<keyof Draft, string>> {
  const found: Partial<Record<keyof Draft, string>> = {};
  const say = (field: keyof Draft, problem: string | undefined | false) => {
    if (problem) found[field] = problem;
  };
  say("project", side === "operator" && draft.project.trim() === "" && "Name the project by its id.");
  say("name", nameProblem(draft.name));
  const gpus = Number(draft.gpus);
  const whole = Number.isInteger(gpus) && gpus > 0 && gpus <= MOST_GPUS && gpus % least === 0;
  say("gpus", !whole && (least > 1 ? `A multiple of ${least}, at most ${MOST_GPUS}.` : `1 to ${MOST_GPUS}.`));
  const start = draft.later ? fromField(draft.start) : now;
  const end = fromField(draft.end);
  if (start === undefined) say("start", "Say when it begins.");
  else if (start < now) say("start", "It must not be in the past.");
  else say("start", start - now > MOST_DAYS * DAY_MS && `At most ${MOST_DAYS} days from now.`);
  if (end === undefined) say("end", "Say when it ends.");
  else if (start !== undefined && end <= start) say("end", "It must be after the begin.");
  else say("end", start !== undefined && end - start > MOST_DAYS * DAY_MS && `At most ${MOST_DAYS} days after the begin.`);
  return found;
}

/** The draft as the API takes it. One that begins later gathers by itself. */
export function requestOf(draft: Draft, side: Side, ownProject: string): { config: ReservationConfig; gather: boolean } {
  const time = (text: string) => new Date(fromField(text) ?? Number.NaN).toISOString();
  const project_id = side === "operator" ? draft.project.trim() : ownProject;
  return {
    config: {
      name: draft.name,
      region_code: draft.region,
      sku: draft.sku,
      gpu_count: Number(draft.gpus),
      end_time: time(draft.end),
      release_unused_after_seconds: draft.unused,
      ...(project_id && { project_id }),
      ...(draft.later && { start_time: time(draft.start) }),
    },
    gather: !draft.later && draft.gather,
  };
}
