/** The launch form's placement constraint and labels. */
import type { Allocation } from "../../api/types";
import type { ById } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { Card } from "../../ui/basics";
import { Field, Segments } from "../../ui/form";
import { WatchProblem } from "../../watch/live";
import type { Watched } from "../../watch/use-watch";
import type { Shape } from "./choice";
import { PrewarmedChoice } from "./parts";
import { type Where, kindsFor } from "./request";

const NOTES: Record<Where["kind"], string> = {
  anywhere: "The scheduler chooses the node by its packing strategy.",
  affinity: "Places the launch on the node of that allocation. Fails if the node has no capacity.",
  affinity_label: "Places the launch on a node where the project runs an allocation with this label. Fails if no such node has capacity.",
  anti_affinity: "Avoids the nodes of these allocations.",
  anti_affinity_label: "Avoids nodes where the project runs an allocation with this label. If this launch has the label too, its allocations are placed on different nodes.",
  spread: "Places each allocation of this launch on a different node. Adds the label launch=<name>.",
};

/** One that affinity can name. */
function neighbourText(allocation: Allocation): string {
  const { config } = allocation;
  return `${nameOf(allocation)} (${config?.sku} × ${config?.gpu_count})`;
}

export function Placement({ watched, where, setWhere, count, shape, others = [], labels, setLabels, problem, labelsProblem }: { watched: Watched<ById<Allocation>>; where: Where; setWhere: (where: Where) => void; count: number; shape: Shape; /** Allocations that affinity can name, once they are known. */ others: Allocation[] | undefined; labels: string; setLabels: (labels: string) => void; problem: string | undefined; labelsProblem: string | undefined }) {
  const none = (where.kind === "affinity" || where.kind === "anti_affinity") && watched.view && others.length === 0;
  const toggle = (id: string, on: boolean) => setWhere({ ...where, anti_affinity: on ? [...where.anti_affinity, id] : where.anti_affinity.filter((other) => other !== id) });
  return (
    <Card title="Placement and labels">
      <Segments label="Placement" options={kindsFor(count)} value={where.kind} onChoose={(kind) => setWhere({ ...where, kind })} />
      <p className="field-hint">{NOTES[where.kind]}</p>
      <WatchProblem watched={watched} />
      {none && <p className="muted">The project has no running allocation in this region. Launch one first, or choose Anywhere.</p>}
      {where.kind === "affinity" && others.length > 0 && (
        <Field label="Same node as" problem={problem}>
          {({ id, describedBy }) => (
            <select id={id} aria-describedby={describedBy} value={where.affinity} onChange={(event) => setWhere({ ...where, affinity: event.target.value })}>
              <option value="">Choose an allocation</option>
              {others.map((other) => (
                <option key={other.id} value={other.id}>
                  {neighbourText(other)}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      {where.kind === "anti_affinity" && others.length > 0 && (
        <fieldset className="field">
          <legend>Different node from</legend>
          {others.map((other) => (
            <label key={other.id} className="check">
              <input type="checkbox" checked={where.anti_affinity.includes(other.id ?? "")} onChange={(event) => toggle(other.id ?? "", event.target.checked)} />
              <span>{neighbourText(other)}</span>
            </label>
          ))}
          <p className="field-problem">{problem}</p>
        </fieldset>
      )}
      {where.kind === "affinity_label" && (
        <Field label="Affinity label" problem={problem}>
          {({ id, describedBy }) => (
            <input id={id} aria-describedby={describedBy} className="mono" placeholder="app=db" value={where.affinity_label} spellCheck={false} autoComplete="off" onChange={(event) => setWhere({ ...where, affinity_label: event.target.value })} />
          )}
        </Field>
      )}
      {where.kind === "anti_affinity_label" && (
        <Field label="Anti-affinity label" problem={problem}>
          {({ id, describedBy }) => (
            <input id={id} aria-describedby={describedBy} className="mono" placeholder="app=db" value={where.anti_affinity_label} spellCheck={false} autoComplete="off" onChange={(event) => setWhere({ ...where, anti_affinity_label: event.target.value })} />
          )}
        </Field>
      )}
      {shape === "gpu_slice" && <PrewarmedChoice chosen={where.prewarmed} choose={(prewarmed) => setWhere({ ...where, prewarmed })} />}
      <Field label="Labels (optional)" problem={labelsProblem} hint="key=value, separated by commas. Affinity and anti-affinity can refer to them.">
        {({ id, describedBy }) => (
          <input id={id} aria-describedby={describedBy} className="mono" placeholder="app=db, team=ml" value={labels} spellCheck={false} autoComplete="off" aria-invalid={!!labelsProblem} onChange={(event) => setLabels(event.target.value)} />
        )}
      </Field>
    </Card>
  );
}
