/** Nodes as a dense table, one line each. */
import type { InventoryNode, Slot } from "../../api/types";
import { LabMark } from "../../ui/basics";
import { Chooser } from "../../ui/bulk";
import { type Column, LinkRow, TableCard } from "../../ui/table";
import type { Placements } from "./fleet";
import { SlotMap, blockerText } from "./parts";
import { NodeState } from "./placement";

const COLUMNS: Column[] = ["Hostname", "State", ["Region", "optional"], ["Mode", "optional"], ["Agent", "optional"], "Slots", ["Blockers", "optional"]];

export function NodeTable({ nodes, slots, placements, chosen, choose }: { nodes: InventoryNode[]; slots: (node: string) => Slot[]; placements: Placements; chosen: ReadonlySet<string>; /** Missing for who may change nothing. */ choose: ((id: string, on: boolean) => void) | undefined }) {
  return (
    <TableCard label="Nodes" columns={COLUMNS} rowsAct>
      {nodes.map((node) => {
        const { id = "", config, status } = node;
        const own = slots(id);
        return (
          <LinkRow key={id} to={`/admin/nodes/${id}`} name={config?.hostname} mark={status?.lab && <LabMark />} before={choose && <Chooser name={config?.hostname} checked={chosen.has(id)} choose={(on) => choose(id, on)} />}>
            <td>
              <NodeState node={node} placement={placements.get(id)} />
            </td>
            <td className="optional tight">{config?.region_code}</td>
            <td className="optional tight">{config?.mode}</td>
            <td className="optional tight">{status?.instance?.agent_version ?? "–"}</td>
            <td className="dense-slots">{own.length > 0 ? <SlotMap slots={own} /> : <span className="muted">–</span>}</td>
            <td className="optional">
              <small>{status?.blockers?.map((blocker) => blockerText(blocker)).join("; ")}</small>
            </td>
          </LinkRow>
        );
      })}
    </TableCard>
  );
}
