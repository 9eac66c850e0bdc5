/** The pieces of the launch form. */
import type { Guardrails } from "../../api/guardrails";
import type { Availability, PlacementExplanation, Region, Sku, UnavailableReason } from "../../api/types";
import { amountOf, exact, rounded, times } from "../../lib/money";
import { either, plural, sentence } from "../../lib/text";
import { Choice } from "../../ui/form";
import { Table } from "../../ui/table";
import { WAIT, WAITS, fitsNow, closedNote, regionProblem, capacityOf } from "./choice";

export function priceOf(sku: Sku | undefined, gpus: number): string | undefined {
  return sku?.price_per_gpu_hour && exact(times(amountOf(sku.price_per_gpu_hour), gpus));
}

/** As clouds count a month: a twelfth of 365 days. */
export const HOURS_PER_MONTH = 730;

export function monthly(sku: Sku, gpus: number): string {
  return rounded(times(amountOf(sku.price_per_gpu_hour), gpus * HOURS_PER_MONTH), 2);
}

/** All regions, unavailable ones with the reason (H-28). */
export function RegionChoice({ regions, value, onChoose, guardrails }: { regions: Region[]; value: string; onChoose: (code: string) => void; /** Of the organisation that it is for. */ guardrails?: Guardrails | undefined }) {
  const closed = closedNote(regions, value, guardrails);
  return (
    <>
      <div className="choices" role="radiogroup" aria-label="Region">
        {regions.map((region) => (
          <Choice key={region.code} name="region" value={region.code} checked={region.code === value} disabled={!!regionProblem(region, guardrails)} onChoose={() => onChoose(region.code)}>
            <strong>{region.display_name || region.code}</strong>
            <small className="muted">{regionProblem(region, guardrails) ?? region.code}</small>
          </Choice>
        ))}
      </div>
      {closed && (
        <p className="blocker" role="alert">
          {closed}
        </p>
      )}
    </>
  );
}

/** The fit in short. `capacity` is how many fit now; undefined while unknown. */
export function FitWord({ capacity, count = 1 }: { capacity: number | undefined; count?: number }) {
  if (capacity === undefined) return <small className="muted">Availability unknown</small>;
  if (capacity > 0 && capacity < count) return <small className="fits-not">{capacity} of {count} fit now</small>;
  return capacity > 0 ? <small className="fits">{capacity} available</small> : <small className="fits-not">None fits now</small>;
}

/** The result of the dry run. */
export interface Judged {
  /** It fits now. */
  fits: boolean;
  /** Of a single allocation only. */
  placement?: PlacementExplanation | undefined;
}

/**
 * How many fit, and if none, why and what to do. Availability and `explanation` ignore constraints: for a `constrained` launch the
 * dry run is shown, or a note until there is one.
 */
export function FitNote({ fit, count = 1, explanation, judged, constrained = false, ways = [] }: { fit: Availability | undefined; count?: number; explanation: PlacementExplanation | undefined; judged?: Judged | undefined; constrained?: boolean; ways?: string[] }) {
  const known = constrained ? judged : undefined;
  const shown = known ? known.placement : explanation;
  const capacity = capacityOf(fit, explanation);
  const some = (capacity ?? 0) > 0;
  const fits = known ? known.fits : fitsNow(capacity, count, judged?.fits);
  const advice = (known || capacity !== undefined) && !fits ? either(ways) : undefined;
  return (
    <>
      <p className="summary-fit" role="status">
        {known ? <ChosenWord fits={fits} count={count} /> : <FitWord capacity={fits ? Math.max(capacity ?? 0, count) : capacity} count={count} />}
      </p>
      {shown ? <Explanation explanation={shown} /> : <Reasons reasons={some || known ? [] : (fit?.reasons ?? [])} />}
      {advice && <p className="field-hint">{advice}</p>}
      {constrained && !known && some && <p className="field-hint">Counted without the placement constraint; with the constraint, fewer may fit.</p>}
    </>
  );
}

function ChosenWord({ fits, count }: { fits: boolean; count: number }) {
  if (!fits) return <small className="fits-not">Does not fit now with the placement constraint</small>;
  return <small className="fits">{count > 1 ? `All ${count} fit with the placement constraint` : "Fits with the placement constraint"}</small>;
}

/** What of an earlier launch is not copied into the form. */
export function LeftOut({ left, name }: { left: string[]; name: string }) {
  if (left.length === 0) return null;
  return (
    <div className="notice" role="status">
      <div>
        Copied from {name}, except:
        <ul>
          {left.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      </div>
    </div>
  );
}

/** Whether a launch that does not fit now is queued, and how long. */
export function WaitChoice({ waits, setWaits, hours, setHours }: { waits: boolean; setWaits: (waits: boolean) => void; hours: number; setHours: (hours: number) => void }) {
  return (
    <div className="field">
      <label className="check">
        <input type="checkbox" checked={waits} onChange={(event) => setWaits(event.target.checked)} /> <span>{WAIT}</span>
      </label>
      {waits && (
        <label>
          Maximum wait{" "}
          <select value={hours} onChange={(event) => setHours(Number(event.target.value))}>
            {WAITS.map((hour) => (
              <option key={hour} value={hour}>
                {hour < 48 ? plural(hour, "hour") : plural(hour / 24, "day")}
              </option>
            ))}
          </select>
        </label>
      )}
      {waits && <p className="field-hint">Billing starts when you can log in.</p>}
    </div>
  );
}

/** Whether only nodes with the image in their cache qualify. */
export function PrewarmedChoice({ chosen, choose }: { chosen: boolean; choose: (chosen: boolean) => void }) {
  return (
    <div className="field">
      <label className="check">
        <input type="checkbox" checked={chosen} onChange={(event) => choose(event.target.checked)} />
        <span>
          Only on nodes with the image cached
          <small className="muted">Starts faster, because no image is pulled. Fewer nodes qualify.</small>
        </span>
      </label>
    </div>
  );
}

function textOf({ reason, message }: UnavailableReason): string {
  return message || sentence((reason ?? "").toLowerCase());
}

function Reasons({ reasons }: { reasons: UnavailableReason[] }) {
  return (
    <ul>
      {reasons.map((reason) => (
        <li key={reason.reason}>{textOf(reason)}</li>
      ))}
    </ul>
  );
}

/** On how many nodes it fits, and why it does not fit on the others. */
function Explanation({ explanation }: { explanation: PlacementExplanation }) {
  const { nodes = 0, nodes_fit = 0, removed = [] } = explanation;
  if (nodes === 0) return removed.length === 0 ? <p className="muted">No node in this region has GPUs of this class.</p> : <Reasons reasons={removed} />;
  return (
    <details className="explanation" open={nodes_fit === 0}>
      <summary>
        Fits on {nodes_fit} of {plural(nodes, "node")}
      </summary>
      {removed.length === 0 && <p className="muted">{nodes_fit < nodes ? "The reasons for the other nodes are unknown." : "All nodes qualify."}</p>}
      <Reasons reasons={removed} />
    </details>
  );
}

/** The reasons why a refused launch does not fit. Each is counted separately, so a node can count several times. */
export function Why({ explanation }: { explanation: PlacementExplanation | undefined }) {
  const { nodes = 0, removed = [] } = explanation ?? {};
  // without a node the refusal is complete
  if (nodes === 0 || removed.length === 0) return null;
  return (
    <>
      <p className="muted">Why it does not fit on {plural(nodes, "node")}:</p>
      <Table label="Reasons why it does not fit" columns={["Reason", ["Nodes", "number"]]}>
        {removed.map((cause) => (
          <tr key={cause.reason}>
            <td>{textOf(cause)}</td>
            <td className="number">{cause.nodes ?? 0}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}
