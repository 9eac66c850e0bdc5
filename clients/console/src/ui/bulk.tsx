/** Actions on several rows of a list at once. Each is a request of its own; those that fail stay selected. */
import { type ReactNode, useState } from "react";
import { plural } from "../lib/text";
import { type Right, may } from "../session/rights";
import { useSession } from "../session/session";
import { Button } from "./basics";
import { Confirm } from "./dialog";
import { ProblemNote } from "./problem";

export interface BulkAction<T> {
  /** On the button, such as "Stop". */
  word: string;
  /** On the button that confirms it, where that is another one. */
  confirm?: string;
  danger?: boolean;
  /** Those of the selected that it applies to. */
  open: T[];
  /** What it does to them. */
  text: ReactNode;
  /** Asks for a reason; missing for one that takes none. */
  reason?: (value: string, change: (value: string) => void) => ReactNode;
  /** The reason may be left out. */
  optional?: boolean;
  run: (one: T, reason: string) => Promise<unknown>;
}

/** Whether it can be confirmed with this reason. */
export function isReady({ reason, optional = false }: Pick<BulkAction<unknown>, "reason" | "optional">, value: string): boolean {
  return !reason || optional || value.trim() !== "";
}

export interface Failure<T> {
  one: T;
  error: unknown;
}

/**
 * The failures that are still shown: an action leaves exactly those chosen that failed, so any other choice is of the person, who
 * has done with them. What a list shows of the chosen changes by itself and counts for nothing.
 */
export function shownFailures<T>(failed: Failure<T>[], chosen: ReadonlySet<string>, id: (one: T) => string): Failure<T>[] {
  const isSame = failed.length === chosen.size && failed.every(({ one }) => chosen.has(id(one)));
  return isSame || failed.length === 0 ? failed : [];
}

/** What happened to each: `failed` has the ones that were refused, with the error. */
export async function runEach<T>(all: T[], run: (one: T) => Promise<unknown>): Promise<Failure<T>[]> {
  const done = await Promise.allSettled(all.map((one) => run(one)));
  return done.flatMap((result, index) => (result.status === "rejected" ? [{ one: all[index]!, error: result.reason as unknown }] : []));
}

interface Props<T> {
  /** Of the group, such as "Selected nodes". */
  label: string;
  /** One of them, such as "node". */
  noun: string;
  selected: T[];
  /** The ids that are chosen, shown or not. */
  chosen: ReadonlySet<string>;
  id: (one: T) => string;
  name: (one: T) => string;
  actions: BulkAction<T>[];
  /** Leaves only these ids selected. */
  keep: (ids: string[]) => void;
  /** After all requests, whatever became of them. */
  after: () => unknown;
  /** Not offered to who lacks this right on the platform. */
  needs?: Right;
}

function Action<T>({ action, props, report }: { action: BulkAction<T>; props: Props<T>; report: (failed: Failure<T>[]) => void }) {
  const [reason, setReason] = useState("");
  const { word, confirm = word, danger = false, open, text, run } = action;
  const act = async () => {
    const failed = await runEach(open, (one) => run(one, reason.trim()));
    props.after();
    report(failed);
    props.keep(failed.map(({ one }) => props.id(one)));
    setReason("");
  };
  return (
    <Confirm
      danger={danger}
      trigger={
        <Button small kind={danger ? "danger" : "plain"} disabled={open.length === 0}>
          {word} {open.length > 0 && open.length}
        </Button>
      }
      title={`${word} ${plural(open.length, props.noun)}?`}
      action={confirm}
      ready={isReady(action, reason)}
      run={act}
    >
      <p>
        <strong>{open.map(props.name).join(", ")}</strong>
      </p>
      <p>{text}</p>
      {action.reason?.(reason, setReason)}
    </Confirm>
  );
}

export function Bulk<T>(props: Props<T>) {
  const { label, selected, name, actions, keep, needs } = props;
  const [failed, setFailed] = useState<Failure<T>[]>([]);
  const shown = shownFailures(failed, props.chosen, props.id);
  if (shown !== failed) setFailed(shown);
  const role = useSession()?.platformRole;
  if (needs && !may(role, needs)) return null;
  return (
    <>
      {(selected.length > 0 || shown.length > 0) && (
        <div className="bulk" role="group" aria-label={label}>
          <span role="status">{selected.length} selected</span>
          {actions.map((action) => (
            <Action key={action.word} action={action} props={props} report={setFailed} />
          ))}
          <Button small kind="quiet" onClick={() => keep([])}>
            Clear
          </Button>
        </div>
      )}
      {shown.map(({ one, error }) => (
        <div key={props.id(one)}>
          <p>
            <strong>{name(one)}</strong>
          </p>
          <ProblemNote error={error} />
        </div>
      ))}
    </>
  );
}

/** Which rows are chosen, by their ids. */
export function useChosen() {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const keep = (ids: string[]) => setChosen(new Set(ids));
  const choose = (id: string, on: boolean) => setChosen((before) => new Set(on ? [...before, id] : [...before].filter((one) => one !== id)));
  return { chosen, keep, choose };
}

/** The box at the beginning of a row. */
export function Chooser({ name, checked, choose }: { name: string | undefined; checked: boolean; choose: (on: boolean) => void }) {
  return <input type="checkbox" aria-label={`Select ${name ?? ""}`} checked={checked} onChange={(event) => choose(event.target.checked)} />;
}
