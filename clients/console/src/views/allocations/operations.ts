/** The entries of a timeline by the operation that they belong to. Pure. */
import type { TimelineEntry } from "../../api/types";

export interface Operation {
  title: string;
  /** Oldest first. */
  entries: TimelineEntry[];
}

/** Events that begin an operation, each time they happen. */
const BEGIN: Record<string, string> = { stopping: "Stop", starting: "Start", rebooting: "Reboot", rescuing: "Rescue", unrescuing: "End of the rescue", releasing: "Release" };

/** Operations by the first part of their steps; an event that is in neither list belongs to the operation before it. */
const TITLES: Record<string, string> = {
  requested: "Launch",
  queued: "Launch",
  reserved: "Launch",
  provision: "Launch",
  provision_node: "Launch",
  stop: "Stop",
  stopped: "Stop",
  start: "Start",
  reboot: "Reboot",
  rescue: "Rescue",
  unrescue: "End of the rescue",
  release: "Release",
  release_node: "Release",
  repair: "Slot repair",
  clean_up: "Clean-up",
};

/** What the host saw of the guest when it gave up, such as the answer to the last login. */
export function observedIn(entries: TimelineEntry[]): string | undefined {
  return entries.findLast(({ error }) => error?.message)?.error?.message;
}

/** Who asked for it, as a reader knows them; empty: the platform itself. */
export function actorText({ actor = "" }: TimelineEntry): string {
  return actor === "operator" ? "an operator" : actor;
}

/** Who asked for the operation that began last, or for the last one of a step; empty: the platform itself. */
export function actorOf(entries: TimelineEntry[], step = ""): string {
  const begun = entries.findLast((entry) => (step ? entry.step === step : entry.step === "reserve" || entry.step === "queued" || (entry.step ?? "") in BEGIN));
  return begun ? actorText(begun) : "";
}

/** The operations in the order in which they began; `entries` are by sequence. */
export function operationsOf(entries: TimelineEntry[]): Operation[] {
  const operations: Operation[] = [];
  for (const entry of entries) {
    const step = entry.step ?? "";
    const last = operations.at(-1);
    const title = BEGIN[step] ?? TITLES[step.split(".")[0] ?? ""] ?? last?.title ?? "Launch";
    if (last && last.title === title && !(step in BEGIN)) last.entries.push(entry);
    else operations.push({ title, entries: [entry] });
  }
  return operations;
}
