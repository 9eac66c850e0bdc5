/** Allocations that a plan would move, and their planned placement. */
import type { PlannedMove } from "../../api/types";
import { placementText } from "../../lib/plans";
import { plural } from "../../lib/text";
import { Time } from "../../ui/basics";
import { ProjectName } from "../../ui/project";
import { type Column, Table } from "../../ui/table";

const COLUMNS: Column[] = ["Allocation", "Project", "SKU", ["GPUs", "number"], ["Since", "optional"], "Planned placement"];

export function movesText(moves: PlannedMove[]): string {
  const gpus = moves.reduce((sum, { allocation }) => sum + (allocation?.gpu_count ?? 0), 0);
  return `${plural(moves.length, "allocation")} with ${plural(gpus, "GPU")}`;
}

export function Moves({ moves, label }: { moves: PlannedMove[]; label: string }) {
  return (
    <div className="scroll">
      <Table label={label} columns={COLUMNS}>
        {moves.map(({ allocation, placement }) => (
          <tr key={allocation?.id}>
            <td>
              <strong title={allocation?.id}>{allocation?.name}</strong>
            </td>
            <td>
              <ProjectName id={allocation?.project_id} />
            </td>
            <td>{allocation?.sku}</td>
            <td className="number">{allocation?.gpu_count}</td>
            <td className="optional">
              <Time value={allocation?.create_time} />
            </td>
            <td>{placement ? placementText(placement) : "–"}</td>
          </tr>
        ))}
      </Table>
    </div>
  );
}
