/** The pieces of the launch form. */
import { type ReactNode, useId } from "react";
import type { Availability, PlacementExplanation, Sku, UnavailableReason } from "../../api/types";
import { amountOf, exact, times } from "../../lib/money";
import { plural, sentence } from "../../lib/words";
import { WAITS } from "./choice";

export function Choice({ name, value, checked, disabled = false, onChoose, children }: { name: string; value: string; checked: boolean; disabled?: boolean; onChoose: () => void; children: ReactNode }) {
  return (
    <label className="choice">
      <input type="radio" name={name} value={value} checked={checked} disabled={disabled} onChange={onChoose} />
      <span className="choice-body">{children}</span>
    </label>
  );
}

export function Field({ label, problem, hint, children }: { label: string; problem?: string | undefined; hint?: ReactNode; children: (ids: { id: string; describedBy: string }) => ReactNode }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, describedBy: `${id}-note` })}
      <p id={`${id}-note`} className={problem ? "field-problem" : "field-hint"}>
        {problem ?? hint}
      </p>
    </div>
  );
}

export function priceOf(sku: Sku | undefined, gpus: number): string | undefined {
  return sku?.price_per_gpu_hour && exact(times(amountOf(sku.price_per_gpu_hour), gpus));
}

/** In a word or two: the reasons stand in the summary. */
export function FitWord({ fit }: { fit: Availability | undefined }) {
  if (!fit) return <small className="muted">Availability unknown</small>;
  return (fit.fits ?? 0) > 0 ? <small className="fits">{fit.fits} available</small> : <small className="fits-not">None fits now</small>;
}

/** How many fit, and if none does, why. */
export function FitNote({ fit, explanation }: { fit: Availability | undefined; explanation: PlacementExplanation | undefined }) {
  const reasons = (fit?.fits ?? 0) > 0 ? [] : (fit?.reasons ?? []);
  return (
    <>
      <p className="summary-fit" role="status">
        <FitWord fit={fit} />
      </p>
      {explanation ? <Explanation explanation={explanation} /> : <Reasons reasons={reasons} />}
    </>
  );
}

/** Whether a launch that does not fit now waits in line, and how long. */
export function WaitChoice({ waits, setWaits, hours, setHours }: { waits: boolean; setWaits: (waits: boolean) => void; hours: number; setHours: (hours: number) => void }) {
  return (
    <div className="field">
      <label>
        <input type="checkbox" checked={waits} onChange={(event) => setWaits(event.target.checked)} /> Wait in line when it does not fit now
      </label>
      {waits && (
        <label>
          At most{" "}
          <select value={hours} onChange={(event) => setHours(Number(event.target.value))}>
            {WAITS.map((hour) => (
              <option key={hour} value={hour}>
                {hour < 48 ? plural(hour, "hour") : plural(hour / 24, "day")}
              </option>
            ))}
          </select>
        </label>
      )}
      {waits && <p className="field-hint">It costs nothing until you can log in.</p>}
    </div>
  );
}

function Reasons({ reasons }: { reasons: UnavailableReason[] }) {
  return (
    <ul>
      {reasons.map((reason) => (
        <li key={reason.reason}>{reason.message || sentence((reason.reason ?? "").toLowerCase())}</li>
      ))}
    </ul>
  );
}

/** On how many nodes it would fit, and for what reasons not on the others. */
function Explanation({ explanation }: { explanation: PlacementExplanation }) {
  const { nodes = 0, nodes_fit = 0, removed = [] } = explanation;
  return (
    <details className="explanation" open={nodes_fit === 0}>
      <summary>
        Fits on {nodes_fit} of {plural(nodes, "node")} here
      </summary>
      {removed.length === 0 && <p className="muted">{nodes === 0 ? "This region has no node yet." : "Nothing keeps it from any of them."}</p>}
      <Reasons reasons={removed} />
    </details>
  );
}
