/** The part of the launch form that says where it may run, and which labels it has. */
import type { Allocation } from "../../api/types";
import type { ById } from "../../api/watches";
import { Card } from "../../ui/basics";
import { Field, Segments } from "../../ui/form";
import { WatchProblem } from "../../watch/live";
import type { Watched } from "../../watch/use-watch";
import type { Shape } from "./choice";
import { PrewarmedChoice } from "./parts";
import { type Where, kindsFor } from "./request";

const NOTES: Record<Where["kind"], string> = {
  anywhere: "Placement takes the node that leaves most room for others.",
  same: "On the node of that allocation; refused when it has no room.",
  mate: "On a node with an allocation of the project that has this label; refused when there is none, or none with room.",
  away: "On no node that one of these is on now.",
  label: "On no node with an allocation of the project that has this label; of several, each then has a node of its own if they have the label too.",
  apart: "No two of this launch on one node: each gets the label launch=… with its name.",
};

function nameOf({ config }: Allocation): string {
  return `${config?.name} (${config?.sku} × ${config?.gpu_count})`;
}

export function Place({ watched, where, setWhere, count, shape, others = [], labels, setLabels, problem, labelsProblem }: { watched: Watched<ById<Allocation>>; where: Where; setWhere: (where: Where) => void; count: number; shape: Shape; /** Those that it can be near to, once they are known. */ others: Allocation[] | undefined; labels: string; setLabels: (labels: string) => void; problem: string | undefined; labelsProblem: string | undefined }) {
  const none = (where.kind === "same" || where.kind === "away") && watched.view && others.length === 0;
  const toggle = (id: string, on: boolean) => setWhere({ ...where, away: on ? [...where.away, id] : where.away.filter((other) => other !== id) });
  return (
    <Card title="Place and labels">
      <Segments label="Where it may run" options={kindsFor(count)} value={where.kind} onChoose={(kind) => setWhere({ ...where, kind })} />
      <p className="field-hint">{NOTES[where.kind]}</p>
      <WatchProblem watched={watched} />
      {none && <p className="muted">The project has no allocation on a node of this region now. Launch one first, or let this one run anywhere.</p>}
      {where.kind === "same" && others.length > 0 && (
        <Field label="Beside" problem={problem}>
          {({ id, describedBy }) => (
            <select id={id} aria-describedby={describedBy} value={where.same} onChange={(event) => setWhere({ ...where, same: event.target.value })}>
              <option value="">Choose one</option>
              {others.map((other) => (
                <option key={other.id} value={other.id}>
                  {nameOf(other)}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      {where.kind === "away" && others.length > 0 && (
        <fieldset className="field">
          <legend>Away from</legend>
          {others.map((other) => (
            <label key={other.id} className="check">
              <input type="checkbox" checked={where.away.includes(other.id ?? "")} onChange={(event) => toggle(other.id ?? "", event.target.checked)} />
              <span>{nameOf(other)}</span>
            </label>
          ))}
          <p className="field-problem">{problem}</p>
        </fieldset>
      )}
      {where.kind === "mate" && (
        <Field label="Label to be beside" problem={problem}>
          {({ id, describedBy }) => (
            <input id={id} aria-describedby={describedBy} className="mono" placeholder="app=db" value={where.mate} spellCheck={false} autoComplete="off" onChange={(event) => setWhere({ ...where, mate: event.target.value })} />
          )}
        </Field>
      )}
      {where.kind === "label" && (
        <Field label="Label to keep away from" problem={problem}>
          {({ id, describedBy }) => (
            <input id={id} aria-describedby={describedBy} className="mono" placeholder="app=db" value={where.label} spellCheck={false} autoComplete="off" onChange={(event) => setWhere({ ...where, label: event.target.value })} />
          )}
        </Field>
      )}
      {shape === "gpu_slice" && <PrewarmedChoice chosen={where.prewarmed} choose={(prewarmed) => setWhere({ ...where, prewarmed })} />}
      <Field label="Labels, if any" problem={labelsProblem} hint="Your own, as key=value with commas between; other launches can keep away from them.">
        {({ id, describedBy }) => (
          <input id={id} aria-describedby={describedBy} className="mono" placeholder="app=db, team=ml" value={labels} spellCheck={false} autoComplete="off" aria-invalid={!!labelsProblem} onChange={(event) => setLabels(event.target.value)} />
        )}
      </Field>
    </Card>
  );
}
