/** What would have to stop for this host to be empty, and where it would fit. Nothing is done by looking. */
import { useEvacuationPlan } from "../../api/queries";
import type { EvacuatedAllocation } from "../../api/types";
import { placeText } from "../../lib/plans";
import { plural } from "../../lib/words";
import { Empty, Skeleton, Time } from "../../ui/basics";
import { ProblemNote } from "../../ui/problem";
import { ProjectName } from "../../ui/project";
import { type Column, TableCard } from "../../ui/table";

const COLUMNS: Column[] = ["Allocation", "Project", "SKU", ["GPUs", "number"], "State", "Since", "Would fit on, or why not"];

/** Where an allocation would be, or why it cannot be anywhere else. */
export function outcomeOf({ allocation, place, reasons }: EvacuatedAllocation): string {
  if (place) return placeText(place);
  if (allocation?.state === "releasing") return "Ends by itself";
  return ["Nowhere.", ...(reasons ?? []).map(({ message }) => message)].join(" ");
}

export function Evacuation({ nodeId }: { nodeId: string }) {
  const plan = useEvacuationPlan(nodeId);
  if (plan.isPending) return <Skeleton lines={4} label="Loading the plan" />;
  if (plan.error) return <ProblemNote error={plan.error} retry={() => plan.refetch()} />;
  const { allocations = [], allocations_fit = 0, allocations_unplaceable = 0, blocked_slots = 0, notice } = plan.data;
  if (allocations.length === 0) {
    return (
      <Empty title="No allocation is on this host">
        {blocked_slots > 0 ? `${plural(blocked_slots, "slot")} would still have to be repaired.` : "It can be taken away as it is."}
      </Empty>
    );
  }
  return (
    <>
      <p>
        {plural(allocations_fit, "allocation")} would fit elsewhere now, {allocations_unplaceable} would have to wait.
        {blocked_slots > 0 && ` ${plural(blocked_slots, "slot")} would have to be repaired.`}
      </p>
      <TableCard label="Plan to evacuate this host" columns={COLUMNS}>
        {allocations.map((one) => (
          <tr key={one.allocation?.id}>
            <td>
              <strong title={one.allocation?.id}>{one.allocation?.name}</strong>
            </td>
            <td>
              <ProjectName id={one.allocation?.project_id} />
            </td>
            <td>{one.allocation?.sku}</td>
            <td className="number">{one.allocation?.gpu_count}</td>
            <td>{one.allocation?.state}</td>
            <td>
              <Time value={one.allocation?.create_time} />
            </td>
            <td>{outcomeOf(one)}</td>
          </tr>
        ))}
      </TableCard>
      {allocations.some(({ constraints_known }) => !constraints_known) && (
        <p className="muted">Some were made by a release that did not keep placement constraints; theirs are not known.</p>
      )}
      <p className="muted">{notice}</p>
    </>
  );
}
