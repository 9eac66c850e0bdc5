/** Allocations that a plan would stop, and where it would have them recreated. */
import type { PlannedMove } from "../../api/types";
import { placeText } from "../../lib/plans";
import { plural } from "../../lib/words";
import { Time } from "../../ui/basics";
import { ProjectName } from "../../ui/project";
import { type Column, Table } from "../../ui/table";

const COLUMNS: Column[] = ["Allocation", "Project", "Product", ["GPUs", "number"], ["Since", "optional"], "Would go to"];

export function movesText(moves: PlannedMove[]): string {
  const gpus = moves.reduce((sum, { allocation }) => sum + (allocation?.gpu_count ?? 0), 0);
  return `${plural(moves.length, "allocation")} with ${plural(gpus, "GPU")}`;
}

export function Moves({ moves, label }: { moves: PlannedMove[]; label: string }) {
  return (
    <div className="scroll">
      <Table label={label} columns={COLUMNS}>
        {moves.map(({ allocation, place }) => (
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
            <td>{place ? placeText(place) : "–"}</td>
          </tr>
        ))}
      </Table>
    </div>
  );
}
