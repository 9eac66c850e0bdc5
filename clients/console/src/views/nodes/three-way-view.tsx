/** What the ledger, the host and its hypervisor have on a node, beside each other, with what mends a difference. */
import { Link } from "wouter";
import { useAdminAllocations, useNodeComparison } from "../../api/nodes";
import type { Allocation, ComparisonRow, Slot } from "../../api/types";
import { plural, sentence, shortId } from "../../lib/text";
import { Badge, Button, Empty, Skeleton, Time } from "../../ui/basics";
import { ProblemNote } from "../../ui/problem";
import { type Column, TableCard } from "../../ui/table";
import { Operate } from "../allocations/operate";
import { nameOf } from "../allocations/rename";
import { RepairSlot } from "./slots";
import { mendOf, sorted, verdictOf } from "./three-way";

const COLUMNS: Column[] = ["Allocation", "Ledger", "Host", "Hypervisor", "What follows", ["Repair", "number"]];

/** The slots by their index, as people know them. */
function heldText(ids: string[], slots: Slot[]): string {
  if (ids.length === 0) return "no slot";
  const names = ids.map((id) => slots.find((slot) => slot.id === id)?.slot_index ?? `…${shortId(id)}`);
  return `${ids.length === 1 ? "slot" : "slots"} ${names.join(", ")}`;
}

function Row({ row, slots, allocation }: { row: ComparisonRow; slots: Slot[]; allocation: Allocation | undefined }) {
  const { allocation_id: id = "", ledger_state, has_claims, held_slot_ids = [], has_reservation, domain_state, detail } = row;
  const [word, tone] = verdictOf(row);
  const mend = mendOf(row, slots);
  return (
    <tr>
      <td title={id}>{ledger_state ? <Link href={`/admin/allocations/${id}`}>{allocation ? nameOf(allocation) : `…${shortId(id)}`}</Link> : <code>…{shortId(id)}</code>}</td>
      <td>
        {ledger_state ? sentence(ledger_state) : "Unknown"}
        {has_claims && <small className="muted block">has claims</small>}
      </td>
      <td>
        {sentence(heldText(held_slot_ids, slots))}
        {has_reservation && <small className="muted block">address reserved</small>}
      </td>
      <td>{domain_state ? sentence(domain_state) : "No VM"}</td>
      <td>
        <Badge tone={tone}>{word}</Badge>
        {detail && <small className="muted block">{sentence(detail)}.</small>}
      </td>
      <td className="number">
        {mend.release && allocation && <Operate allocation={allocation} />}
        {mend.repair.map((slot) => (
          <RepairSlot key={slot.id} slot={slot} />
        ))}
        {!mend.release && mend.repair.length === 0 && <span className="muted">–</span>}
      </td>
    </tr>
  );
}

export function ThreeWay({ nodeId, slots }: { nodeId: string; slots: Slot[] }) {
  const compared = useNodeComparison(nodeId);
  const rows = sorted(compared.data?.rows ?? []);
  const allocations = useAdminAllocations(rows.flatMap(({ ledger_state, allocation_id }) => (ledger_state && allocation_id) || []));
  const different = rows.filter(({ verdict }) => verdict !== "agrees").length;
  if (compared.isPending) return <Skeleton lines={4} label="Comparing ledger, host and hypervisor" />;
  return (
    <>
      {compared.error && <ProblemNote error={compared.error} retry={() => compared.refetch()} />}
      {compared.data && rows.length === 0 && (
        <Empty title="Nothing to compare" action={<Button onClick={() => compared.refetch()}>Compare again</Button>}>
          Neither the ledger, nor the host, nor its hypervisor has anything of an allocation.
        </Empty>
      )}
      {rows.length > 0 && (
        <TableCard
          label="Ledger, host and hypervisor"
          columns={COLUMNS}
          foot={
            <>
              <span className="muted" role="status">
                {different === 0 ? "All agree." : `${plural(different, "difference")} in ${plural(rows.length, "allocation")}.`} Compared <Time value={new Date(compared.dataUpdatedAt).toISOString()} />.
              </span>
              <Button small busy={compared.isFetching} onClick={() => compared.refetch()}>
                Compare again
              </Button>
            </>
          }
        >
          {rows.map((row) => (
            <Row key={row.allocation_id} row={row} slots={slots} allocation={allocations.get(row.allocation_id ?? "")} />
          ))}
        </TableCard>
      )}
    </>
  );
}
