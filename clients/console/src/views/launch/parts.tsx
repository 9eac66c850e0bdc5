/** The pieces of the launch form. */
import type { Availability, PlacementExplanation, Region, Sku, UnavailableReason } from "../../api/types";
import { amountOf, exact, times } from "../../lib/money";
import { either, plural, sentence } from "../../lib/words";
import { Choice } from "../../ui/form";
import { Table } from "../../ui/table";
import { WAIT, WAITS, fitsNow, regionProblem, roomOf } from "./choice";

export function priceOf(sku: Sku | undefined, gpus: number): string | undefined {
  return sku?.price_per_gpu_hour && exact(times(amountOf(sku.price_per_gpu_hour), gpus));
}

/** All regions, also those that cannot be chosen, with the reason (H-28). */
export function RegionChoice({ regions, value, onChoose }: { regions: Region[]; value: string; onChoose: (code: string) => void }) {
  return (
    <div className="choices" role="radiogroup" aria-label="Region">
      {regions.map((region) => (
        <Choice key={region.code} name="region" value={region.code} checked={region.code === value} disabled={!!regionProblem(region)} onChoose={() => onChoose(region.code)}>
          <strong>{region.display_name || region.code}</strong>
          <small className="muted">{regionProblem(region) ?? region.code}</small>
        </Choice>
      ))}
    </div>
  );
}

/** In a word or two: the reasons stand in the summary. `room` is how many fit now; nothing, while it is not known. */
export function FitWord({ room, count = 1 }: { room: number | undefined; count?: number }) {
  if (room === undefined) return <small className="muted">Availability unknown</small>;
  if (room > 0 && room < count) return <small className="fits-not">{room} of {count} would fit now</small>;
  return room > 0 ? <small className="fits">{room} available</small> : <small className="fits-not">None fits now</small>;
}

/** What the server has counted with all that was chosen. */
export interface Judged {
  /** It would be launched now. */
  fits: boolean;
  /** It is told of one only. */
  placement?: PlacementExplanation | undefined;
}

/**
 * How many fit, and if none does, why and what to do. What is free and `explanation` are counted for a launch that may run anywhere:
 * of one that may not (`constrained`) the judgement is told, and until there is one, that it is missing.
 */
export function FitNote({ fit, count = 1, explanation, judged, constrained = false, ways = [] }: { fit: Availability | undefined; count?: number; explanation: PlacementExplanation | undefined; judged?: Judged | undefined; constrained?: boolean; ways?: string[] }) {
  const known = constrained ? judged : undefined;
  const told = known ? known.placement : explanation;
  const room = roomOf(fit, explanation);
  const some = (room ?? 0) > 0;
  const fits = known ? known.fits : fitsNow(room, count, judged?.fits);
  const advice = (known || room !== undefined) && !fits ? either(ways) : undefined;
  return (
    <>
      <p className="summary-fit" role="status">
        {known ? <ChosenWord fits={fits} count={count} /> : <FitWord room={fits ? Math.max(room ?? 0, count) : room} count={count} />}
      </p>
      {told ? <Explanation explanation={told} /> : <Reasons reasons={some || known ? [] : (fit?.reasons ?? [])} />}
      {advice && <p className="field-hint">{advice}</p>}
      {constrained && !known && some && <p className="field-hint">Counted as if it could run anywhere; in the place that you chose fewer may fit.</p>}
    </>
  );
}

function ChosenWord({ fits, count }: { fits: boolean; count: number }) {
  if (!fits) return <small className="fits-not">Does not fit now where it may run</small>;
  return <small className="fits">{count > 1 ? `All ${count} fit where they may run` : "Fits where it may run"}</small>;
}

/** What of an earlier launch is not in the form. */
export function LeftOut({ left, name }: { left: string[]; name: string }) {
  if (left.length === 0) return null;
  return (
    <div className="notice" role="status">
      <div>
        Filled in as {name} was launched, but:
        <ul>
          {left.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      </div>
    </div>
  );
}

/** Whether a launch that does not fit now waits in line, and how long. */
export function WaitChoice({ waits, setWaits, hours, setHours }: { waits: boolean; setWaits: (waits: boolean) => void; hours: number; setHours: (hours: number) => void }) {
  return (
    <div className="field">
      <label className="check">
        <input type="checkbox" checked={waits} onChange={(event) => setWaits(event.target.checked)} /> <span>{WAIT}</span>
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

/** Whether only nodes are good enough from whose cache the image starts. */
export function PrewarmedChoice({ chosen, choose }: { chosen: boolean; choose: (chosen: boolean) => void }) {
  return (
    <div className="field">
      <label className="check">
        <input type="checkbox" checked={chosen} onChange={(event) => choose(event.target.checked)} />
        <span>
          Only on nodes that have the image in their cache
          <small className="muted">It starts sooner, because nothing is pulled first; fewer nodes qualify.</small>
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

/** On how many nodes it would fit, and for what reasons not on the others. */
function Explanation({ explanation }: { explanation: PlacementExplanation }) {
  const { nodes = 0, nodes_fit = 0, removed = [] } = explanation;
  if (nodes === 0) return removed.length === 0 ? <p className="muted">No node here has GPUs of this kind.</p> : <Reasons reasons={removed} />;
  return (
    <details className="explanation" open={nodes_fit === 0}>
      <summary>
        Fits on {nodes_fit} of {plural(nodes, "node")} here
      </summary>
      {removed.length === 0 && <p className="muted">{nodes_fit < nodes ? "Why not on more is not told." : "Nothing keeps it from any of them."}</p>}
      <Reasons reasons={removed} />
    </details>
  );
}

/** What keeps one that is refused from the nodes: each constraint for itself, so that a node may be counted several times. */
export function Why({ explanation }: { explanation: PlacementExplanation | undefined }) {
  const { nodes = 0, removed = [] } = explanation ?? {};
  // where there is no node, the refusal says all there is to say
  if (nodes === 0 || removed.length === 0) return null;
  return (
    <>
      <p className="muted">Of {plural(nodes, "node")} here, each of these removes:</p>
      <Table label="What keeps it from the nodes" columns={["Why", ["Nodes", "number"]]}>
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
