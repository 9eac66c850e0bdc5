/** The plan to evacuate a node: its allocations and where each would fit. A simulation: nothing is moved. */
import { useEvacuationPlan } from "../../api/queries";
import type { EvacuatedAllocation } from "../../api/types";
import { placementText } from "../../lib/plans";
import { plural } from "../../lib/text";
import { Empty, Skeleton, Time } from "../../ui/basics";
import { ProblemNote } from "../../ui/problem";
import { ProjectName } from "../../ui/project";
import { type Column, TableCard } from "../../ui/table";
import { ForceRelease } from "../allocations/force-release";

const COLUMNS: Column[] = ["Allocation", "Project", "SKU", ["GPUs", "number"], "State", "Since", "Outcome"];

/** Where an allocation would go, or why it cannot move. */
export function outcomeOf({ allocation, placement, reasons }: EvacuatedAllocation): string {
  if (placement) return placementText(placement);
  if (allocation?.state === "releasing") return "Being released";
  return ["Does not fit elsewhere.", ...(reasons ?? []).map(({ message }) => message)].join(" ");
}

export function Evacuation({ nodeId, isLost }: { nodeId: string; /** Its reports have stopped: what is on it can be ended by force alone. */ isLost: boolean }) {
  const plan = useEvacuationPlan(nodeId);
  if (plan.isPending) return <Skeleton lines={4} label="Loading the plan" />;
  if (plan.error) return <ProblemNote error={plan.error} retry={() => plan.refetch()} />;
  const { allocations = [], allocations_fit = 0, allocations_unplaceable = 0, blocked_slots = 0, notice } = plan.data;
  if (allocations.length === 0) {
    return (
      <Empty title="No allocations on this node">
        {blocked_slots > 0 ? `${plural(blocked_slots, "slot")} must be repaired first.` : "The node is empty."}
      </Empty>
    );
  }
  return (
    <>
      <p>
        {plural(allocations_fit, "allocation")} fit elsewhere now, {allocations_unplaceable} {allocations_unplaceable === 1 ? "does" : "do"} not.
        {blocked_slots > 0 && ` ${plural(blocked_slots, "slot")} must be repaired.`}
      </p>
      <TableCard label="Evacuation plan" columns={COLUMNS}>
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
            <td>
              {outcomeOf(one)}
              {isLost && (
                <p className="row-action">
                  <ForceRelease small id={one.allocation?.id ?? ""} name={one.allocation?.name ?? "the allocation"} />
                </p>
              )}
            </td>
          </tr>
        ))}
      </TableCard>
      {allocations.some(({ constraints_known }) => !constraints_known) && (
        <p className="muted">The placement constraints of some allocations are unknown: an older release did not record them.</p>
      )}
      <p className="muted">{notice}</p>
    </>
  );
}
