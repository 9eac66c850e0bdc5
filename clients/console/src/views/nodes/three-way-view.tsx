/** What the ledger, the host and its hypervisor have on a node, beside each other, with what corrects a difference. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { client, unwrap } from "../../api/client";
import { useAdminAllocations, useNodeComparison } from "../../api/nodes";
import type { Allocation, ComparisonRow, Slot } from "../../api/types";
import { nameOf } from "../../lib/allocation-name";
import { plural, sentence, shortId } from "../../lib/text";
import { Badge, Button, Empty, Skeleton, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Wrench } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { type Column, TableCard } from "../../ui/table";
import { Operate } from "../allocations/operate";
import { Differences } from "./differences";
import { Reason } from "./parts";
import { RepairSlot } from "./slots";
import { actionsOf, correctionOf, filesOf, guestOf, sorted, verdictOf } from "./three-way";

const COLUMNS: Column[] = ["Allocation", "Ledger", "Host", "Hypervisor", "Verdict", ["Correction", "number"]];

/** The slots by their index, as people know them. */
function heldText(ids: string[], slots: Slot[]): string {
  if (ids.length === 0) return "no slot";
  const names = ids.map((id) => slots.find((slot) => slot.id === id)?.slot_index ?? `…${shortId(id)}`);
  return `${ids.length === 1 ? "slot" : "slots"} ${names.join(", ")}`;
}

/** Does what the row offers, for the row as it was read. */
function CorrectRow({ nodeId, row, name }: { nodeId: string; row: ComparisonRow; name: string }) {
  const [reason, setReason] = useState("");
  const queries = useQueryClient();
  const offered = correctionOf(row);
  const { allocation_id = "", correction = "unspecified", etag = "" } = row;
  if (!offered) return null;
  const run = async () => {
    const path = { node_id: nodeId, allocation_id };
    await unwrap(client.POST("/api/v1/admin/nodes/{node_id}/comparison/{allocation_id}:correct", { params: { path }, body: { correction, etag, reason } }));
    await queries.invalidateQueries({ queryKey: ["node-comparison", nodeId] });
  };
  return (
    <Confirm needs="operate" danger={correction === "undo"} trigger={<Button small><Wrench size={14} aria-hidden="true" /> {offered.action} <span className="visually-hidden">{name}</span></Button>} title={`${offered.action} ${name}?`} action={offered.action} ready={reason.trim() !== ""} run={run}>
      <p>{offered.text}</p>
      {row.detail && <p className="muted">{sentence(row.detail)}.</p>}
      <Reason id={`why-correct-${allocation_id}`} label="Reason" value={reason} onChange={setReason} />
    </Confirm>
  );
}

function Row({ nodeId, row, slots, allocation }: { nodeId: string; row: ComparisonRow; slots: Slot[]; allocation: Allocation | undefined }) {
  const { allocation_id: id = "", ledger_state, has_claims, journal_slot_ids = [], missing_files = [], domain_state, detail } = row;
  const name = allocation ? nameOf(allocation) : `…${shortId(id)}`;
  const files = filesOf(row);
  const guest = guestOf(row);
  const [word, tone] = verdictOf(row);
  const actions = actionsOf(row, slots);
  return (
    <tr>
      <td title={id}>{ledger_state ? <Link href={`/admin/allocations/${id}`}>{name}</Link> : <code className="tight">…{shortId(id)}</code>}</td>
      <td>
        {ledger_state ? sentence(ledger_state) : "Unknown"}
        {has_claims && <small className="muted block">holds slots</small>}
      </td>
      <td>
        {sentence(heldText(journal_slot_ids, slots))}
        {files && <small className="muted block">{files}</small>}
      </td>
      <td>
        {domain_state ? sentence(domain_state) : "No VM"}
        {missing_files.length > 0 && <small className="bad-text block">without {missing_files.join(" and ")}</small>}
        {guest && <small className="muted block">{guest}</small>}
      </td>
      <td>
        <Badge tone={tone}>{word}</Badge>
        {detail && <small className="muted block">{sentence(detail)}.</small>}
      </td>
      <td className="number">
        <span className="page-actions">
          {actions.release && allocation && <Operate allocation={allocation} />}
          {actions.repair.map((slot) => (
            <RepairSlot key={slot.id} slot={slot} />
          ))}
          <CorrectRow nodeId={nodeId} row={row} name={name} />
          {!actions.release && actions.repair.length === 0 && !correctionOf(row) && <span className="muted">–</span>}
        </span>
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
          Ledger, host and hypervisor have no allocation of this node.
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
            <Row key={row.allocation_id} nodeId={nodeId} row={row} slots={slots} allocation={allocations.get(row.allocation_id ?? "")} />
          ))}
        </TableCard>
      )}
      <Differences nodeId={nodeId} differences={compared.data?.differences ?? []} slots={slots} />
    </>
  );
}
