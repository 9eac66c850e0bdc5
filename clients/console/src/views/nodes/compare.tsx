/** What was approved for a node's slots beside what its host has now. */
import type { Slot, SlotComparison } from "../../api/types";
import { Badge, Time, type Tone } from "../../ui/basics";
import { type Column, Table } from "../../ui/table";
import { useQuerySwitch } from "../../ui/use-query-state";
import { fieldName } from "./drift";

const STATES: Record<string, [string, Tone]> = {
  new: ["New", "good"],
  same: ["As approved", "good"],
  different: ["Different", "bad"],
  not_found: ["Not found", "bad"],
};
const COLUMNS: Column[] = ["Slot", "Compared", "Item", "Approved", "Found"];

/** How a slot and its host differ now, by the host's last report. */
export function Drifts({ slot }: { slot: Slot }) {
  return slot.drift?.map(({ kind, message, remediation, since, needs_wipe }) => (
    <div key={`${kind} ${message}`} className="blocker">
      <p>
        {message} <span className="muted">Since <Time value={since} />.</span>
      </p>
      {remediation && (
        <p className="remediation">
          <strong>To do:</strong> {remediation}
        </p>
      )}
      {needs_wipe && <p className="muted">The disk may be changed: the slot stays unschedulable until a repair has wiped the disk.</p>}
    </div>
  ));
}

export function Comparison({ comparisons }: { comparisons: SlotComparison[] }) {
  const [all, setAll] = useQuerySwitch("all");
  const approved = comparisons.filter(({ state }) => state !== "new");
  if (approved.length === 0) return null;
  const rows = approved.flatMap((one) => {
    const bindings = (one.bindings ?? []).filter(({ differs }) => all || differs || one.state === "not_found");
    return bindings.map((binding, index) => ({ one, binding, isFirst: index === 0 }));
  });
  return (
    <div className="card comparison">
      <header>
        <h2>Approved and found</h2>
        <label className="switch">
          <input type="checkbox" role="switch" checked={all} onChange={(event) => setAll(event.target.checked)} />
          <span>Show all items</span>
        </label>
      </header>
      {rows.length === 0 ? (
        <p>The latest discovery matches every approved slot.</p>
      ) : (
        <Table label="Approved and found" columns={COLUMNS}>
          {rows.map(({ one, binding, isFirst }) => {
            const [word, tone] = STATES[one.state ?? ""] ?? ["–", "idle"];
            return (
              <tr key={`${one.slot_index} ${binding.field}`} className={isFirst ? "" : "same-slot"}>
                <td>{isFirst ? <strong>{one.slot_index}</strong> : <span className="visually-hidden">{one.slot_index}</span>}</td>
                <td>{isFirst && <Badge tone={tone}>{word}</Badge>}</td>
                <td>{fieldName(binding.field)}</td>
                <td>
                  <code>{binding.approved || "none"}</code>
                </td>
                <td>
                  <code className={binding.differs ? "bad-text" : ""}>{binding.found || "none"}</code>
                </td>
              </tr>
            );
          })}
        </Table>
      )}
    </div>
  );
}
