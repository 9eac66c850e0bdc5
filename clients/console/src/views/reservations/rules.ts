/** The state of a reservation and the rules of the form: pure decisions. */
import type { Side } from "../../api/capacity";
import { type Searched, namedProjects, wordsFilter } from "../../api/pages";
import type { Region, Reservation, ReservationConfig } from "../../api/types";
import type { Project } from "../../session/session";
import { fromField, toField } from "../../lib/time";
import { nameProblem, plural } from "../../lib/text";
import type { Tone } from "../../ui/basics";
import { type Part, partsText } from "../../ui/meter";

export const TONES: Record<string, Tone> = { scheduled: "idle", gathering: "warn", active: "good", ended: "idle", canceled: "idle" };

export function isOver({ status }: Reservation): boolean {
  return status?.state === "ended" || status?.state === "canceled";
}

/** Whether it has not started. */
export function isScheduled({ status }: Reservation): boolean {
  return status?.state === "scheduled";
}

/** Its size: the requested GPUs without those that idle release gave back. */
export function sizeOf({ config, status }: Reservation): number {
  return Math.max(0, (config?.gpu_count ?? 0) - (status?.released_gpus ?? 0));
}

/** The reserved GPUs by their use. */
export function partsOf(reservation: Reservation): Part[] {
  const { reserved_gpus = 0, used_gpus = 0, unused_gpus = 0, unavailable_gpus = 0 } = reservation.status ?? {};
  return [
    { label: "in use", value: used_gpus, tone: "busy" },
    { label: "unused", value: unused_gpus, tone: "good" },
    { label: "unavailable", value: unavailable_gpus, tone: "bad" },
    { label: "missing", value: Math.max(0, sizeOf(reservation) - reserved_gpus), tone: "idle", hollow: true },
  ];
}

/** States that a reservation can be in, as the list offers them. */
export const STATES = Object.keys(TONES);

/** The filter of the API for every word of a search in name, SKU, region or the project’s name or id, for a state, and for unused GPUs. */
export function filterOf({ search, state, idle }: { search: string; state: string; idle: boolean }, projects: Project[]): Searched {
  return wordsFilter(["name", "sku", "region_code"], search, { ids: ["project_id"], named: namedProjects(projects), rest: [STATES.includes(state) ? `state = ${state}` : "", idle ? "unused_gpus > 0" : ""] });
}

/** The same over several reservations; scheduled and ended ones have no GPUs. */
export function totalsOf(reservations: Reservation[]): Part[] {
  const running = reservations.filter(({ status }) => status?.state === "active" || status?.state === "gathering");
  return partsOf({}).map((part, index) => ({ ...part, value: running.reduce((sum, one) => sum + (partsOf(one)[index]?.value ?? 0), 0) }));
}

/** Use of its GPUs as text. */
export function usageText(reservation: Reservation): string {
  if (isOver(reservation)) return plural(reservation.config?.gpu_count ?? 0, "GPU");
  const size = plural(sizeOf(reservation), "GPU");
  return isScheduled(reservation) ? `${size}, none reserved yet` : `${size}: ${partsText(partsOf(reservation))}`;
}

/** Elapsed share of its time window, from 0 to 100. */
export function passedPercent({ config }: Reservation, now: number): number {
  const [start, end] = [Date.parse(config?.start_time ?? ""), Date.parse(config?.end_time ?? "")];
  return end > start ? Math.max(0, Math.min(100, ((now - start) / (end - start)) * 100)) : 0;
}

/** Whether the user can end it: only an operator ends what an operator created. */
export function mayEnd(side: Side, reservation: Reservation): boolean {
  return !isOver(reservation) && (side === "operator" || !!reservation.metadata?.made_by_project);
}

/** Maximum GPUs, and maximum days until the start and until the end. */
export const MAX_GPUS = 1024;
export const MAX_DAYS = 90;
const DAY_MS = 86_400_000;

/** Idle release after so many seconds; 0 is the default of the site for members, never for operators. */
export function unusedOf(side: Side): { value: number; label: string }[] {
  return [
    { value: 0, label: side === "operator" ? "Never" : "The site’s maximum" },
    { value: 1800, label: "30 minutes" },
    { value: 7200, label: "2 hours" },
    { value: 28_800, label: "8 hours" },
    { value: 86_400, label: "1 day" },
  ];
}

/** What to do when so many cannot be reserved now: not fewer than `least`, and only an enabled region. */
export function waysOf({ gpus, region }: Pick<Draft, "gpus" | "region">, least: number, regions: Region[]): string[] {
  const ways: [boolean, string][] = [
    [Number(gpus) > least, "request fewer GPUs"],
    [regions.some(({ code, enabled }) => enabled && code !== region), "choose another region"],
    [true, "wait until capacity becomes free"],
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
  /** The end as the field has it; counts without `hours`. */
  end: string;
  /** The length that was chosen in place of an end, counted from the start. */
  hours: number | undefined;
  unused: number;
  gather: boolean;
}

const HOUR_MS = 3_600_000;

/** The length that a new reservation has. */
const USUAL_HOURS = 8;

/** What a draft starts with where the address names nothing. */
export type Usual = Pick<Draft, "project" | "name" | "region" | "sku" | "gpus">;

/** The draft that an address names; times stand there in UTC, so that a sent link means the same time. */
export function draftOf(given: URLSearchParams, usual: Usual, now: number): Draft {
  const text = (key: keyof Usual) => given.get(key) ?? usual[key];
  const field = (key: string) => {
    const time = Date.parse(given.get(key) ?? "");
    return Number.isNaN(time) ? "" : toField(time);
  };
  const start = field("start");
  const end = field("end");
  return {
    project: text("project"),
    name: text("name"),
    region: text("region"),
    sku: text("sku"),
    gpus: text("gpus"),
    later: start !== "",
    start: start || toField(now + HOUR_MS),
    end,
    hours: end ? undefined : Number(given.get("hours")) || USUAL_HOURS,
    unused: Number(given.get("unused")) || 0,
    gather: given.get("gather") === "1",
  };
}

/** A draft as parameters of an address; empty where it is as usual. */
export function paramsOf(draft: Draft, usual: Usual): Record<string, string> {
  const text = (key: keyof Usual) => (draft[key] === usual[key] ? "" : draft[key]);
  const time = (field: string) => {
    const at = fromField(field);
    return at === undefined ? "" : new Date(at).toISOString();
  };
  return {
    project: text("project"),
    name: text("name"),
    region: text("region"),
    sku: text("sku"),
    gpus: text("gpus"),
    start: draft.later ? time(draft.start) : "",
    end: draft.hours === undefined ? time(draft.end) : "",
    hours: draft.hours === undefined || draft.hours === USUAL_HOURS ? "" : String(draft.hours),
    unused: draft.unused === 0 ? "" : String(draft.unused),
    gather: draft.gather ? "1" : "",
  };
}

/** When it begins and ends, in milliseconds since the epoch; undefined for what is not a time. */
export function windowOf({ later, start, end, hours }: Pick<Draft, "later" | "start" | "end" | "hours">, now: number): [number | undefined, number | undefined] {
  const begin = later ? fromField(start) : now;
  if (hours === undefined) return [begin, fromField(end)];
  return [begin, begin === undefined ? undefined : begin + hours * HOUR_MS];
}

/** Violations of a draft, by field; `least` is the smallest count that the SKU allows. */
export function problemsOf(draft: Draft, side: Side, least: number, now: number): Partial<Record<keyof Draft, string>> {
  const found: Partial<Record<keyof Draft, string>> = {};
  const add = (field: keyof Draft, problem: string | undefined | false) => {
    if (problem) found[field] = problem;
  };
  add("project", side === "operator" && draft.project.trim() === "" && "Choose a project.");
  add("name", nameProblem(draft.name));
  const gpus = Number(draft.gpus);
  const whole = Number.isInteger(gpus) && gpus > 0 && gpus <= MAX_GPUS && gpus % least === 0;
  add("gpus", !whole && (least > 1 ? `Enter a multiple of ${least}, at most ${MAX_GPUS}.` : `Enter 1 to ${MAX_GPUS}.`));
  const [start, end] = windowOf(draft, now);
  if (start === undefined) add("start", "Enter a start time.");
  else if (start < now) add("start", "Enter a time in the future.");
  else add("start", start - now > MAX_DAYS * DAY_MS && `At most ${MAX_DAYS} days from now.`);
  if (end === undefined) add("end", "Enter an end time.");
  else if (start !== undefined && end <= start) add("end", "Enter a time after the start.");
  else add("end", start !== undefined && end - start > MAX_DAYS * DAY_MS && `At most ${MAX_DAYS} days after the start.`);
  return found;
}

/** The draft as an API request. One that starts later gathers by itself. */
export function requestOf(draft: Draft, side: Side, ownProject: string, now: number): { config: ReservationConfig; gather: boolean } {
  const time = (at: number | undefined) => new Date(at ?? Number.NaN).toISOString();
  const [start, end] = windowOf(draft, now);
  const project_id = side === "operator" ? draft.project.trim() : ownProject;
  return {
    config: {
      name: draft.name,
      region_code: draft.region,
      sku: draft.sku,
      gpu_count: Number(draft.gpus),
      end_time: time(end),
      release_unused_after_seconds: draft.unused,
      ...(project_id && { project_id }),
      ...(draft.later && { start_time: time(start) }),
    },
    gather: !draft.later && draft.gather,
  };
}
