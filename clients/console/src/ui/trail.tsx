/** What the pages of activity and of the audit trail share: filters by who, outcome and time, and the foot of their lists. */
import type { ReactNode } from "react";
import { plural } from "../lib/text";
import { zone } from "../lib/time";
import { Button } from "./basics";
import { Select } from "./form";
import { TextFilter, TimeFilter, moment } from "./text-filter";
import { useQueryReset, useQueryState } from "./use-query-state";
import "../styles/audit.css";

const OUTCOMES = [
  { value: "" as const, label: "All" },
  { value: "allowed" as const, label: "Allowed" },
  { value: "denied" as const, label: "Denied" },
];
const KEYS = ["who", "outcome", "from", "to"];

/** The outcome of an address; all where it names none that there is. */
export function outcomeOf(text: string): "" | "allowed" | "denied" {
  return OUTCOMES.find(({ value }) => value === text)?.value ?? "";
}

/** The filters that both pages have, as the address carries them. `own` names the parameters that only one page has. */
export function useTrail(own: string[]) {
  const [who, setWho] = useQueryState("who");
  const [outcomeText, setOutcome] = useQueryState("outcome");
  const [from, setFrom] = useQueryState("from");
  const [to, setTo] = useQueryState("to");
  const clear = useQueryReset([...own, ...KEYS]);
  const outcome = outcomeOf(outcomeText);
  /** As the API takes them. */
  const times = { outcome, start_time: moment(from), end_time: moment(to) };
  return { who, setWho, outcome, setOutcome, from, setFrom, to, setTo, clear, times };
}

export type Trail = ReturnType<typeof useTrail>;

export function TrailFilters({ label, trail, children }: { label: string; trail: Trail; /** The filters that only this page has. */ children: ReactNode }) {
  return (
    <div className="filters audit-filters" role="search" aria-label={label}>
      <TextFilter label="Who" placeholder="user:alice" value={trail.who} onChange={trail.setWho} />
      {children}
      <Select label="Outcome" value={trail.outcome} onChoose={trail.setOutcome} options={OUTCOMES} />
      <TimeFilter label="From" value={trail.from} onChange={trail.setFrom} />
      <TimeFilter label="To" value={trail.to} onChange={trail.setTo} />
    </div>
  );
}

/** The pages of a list as react-query has them. */
interface Pages {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

export function TrailFoot({ count, noun, many, of }: { count: number; noun: string; many?: string; of: Pages }) {
  return (
    <>
      <span className="muted" role="status">
        {plural(count, noun, many)}
        {of.hasNextPage ? ", and more" : ""}. Times in {zone}.
      </span>
      {of.hasNextPage && (
        <Button small busy={of.isFetchingNextPage} onClick={() => of.fetchNextPage()}>
          Show more
        </Button>
      )}
    </>
  );
}
