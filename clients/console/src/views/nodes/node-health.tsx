/** What is known to be broken on a node: findings of health agents, and its break-fix records. */
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { type KeyHeader, useOnce } from "../../api/attempt";
import { client, unwrap } from "../../api/client";
import { useBreakFixes, useFindings } from "../../api/nodes";
import type { BreakFix, NodeFinding, Slot } from "../../api/types";
import { plural, sentence } from "../../lib/text";
import { Badge, Button, Card, Time, type Tone } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Wrench } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { Reason } from "./parts";

const TONES: Record<string, Tone> = { critical: "bad", warning: "warn", info: "idle" };

/** A question with one answer in words, which is sent. */
function Ask({ trigger, title, action, label, text, send }: { trigger: ReactNode; title: string; action: string; label: string; text: string; send: (answer: string, header: KeyHeader) => Promise<unknown> }) {
  const queries = useQueryClient();
  const [answer, setAnswer] = useState("");
  const sendOnce = useOnce(title, send);
  const run = async () => {
    await sendOnce(answer.trim());
    setAnswer("");
    for (const key of ["break-fixes", "findings", "node-history", "placement"]) void queries.invalidateQueries({ queryKey: [key] });
  };
  return (
    <Confirm needs="operate" trigger={trigger} title={title} action={action} ready={answer.trim() !== ""} run={run}>
      <p>{text}</p>
      <Reason id={`answer-${title}`} label={label} value={answer} onChange={setAnswer} />
    </Confirm>
  );
}

/** The slot that a record is of, or the node. */
function whereOf(slots: Slot[], slot_id: string | undefined): string {
  const slot = slot_id && slots.find(({ id }) => id === slot_id);
  return slot ? `Slot ${slot.slot_index}` : "Node";
}

export function Record({ record, slots }: { record: BreakFix; slots: Slot[] }) {
  const { id: break_fix_id = "", node_id = "", fault, opened_by, open_time, actions = [], closed_by, close_time, outcome } = record;
  const path = { node_id, break_fix_id };
  const isOpen = !close_time;
  return (
    <li className="node-health">
      <header>
        <strong>
          {whereOf(slots, record.slot_id)}: {fault}
        </strong>
        <Badge tone={isOpen ? "bad" : "idle"}>{isOpen ? "Open" : "Closed"}</Badge>
      </header>
      <p className="muted">
        Opened by {opened_by} <Time value={open_time} />.
      </p>
      {actions.length > 0 && (
        <ol>
          {actions.map(({ time, principal, action }) => (
            <li key={`${time} ${action}`}>
              {action} <span className="muted">{principal}, <Time value={time} /></span>
            </li>
          ))}
        </ol>
      )}
      {close_time && (
        <p>
          {outcome} <span className="muted">Closed by {closed_by} <Time value={close_time} />.</span>
        </p>
      )}
      {isOpen && (
        <div className="page-actions">
          <Ask
            trigger={<Button small>Add action</Button>}
            title="Add an action"
            action="Add action"
            label="What was done"
            text="The action is kept with the record, with your name and the time."
            send={(action, header) => unwrap(client.POST("/api/v1/admin/nodes/{node_id}/break-fixes/{break_fix_id}:addAction", { params: { path, header }, body: { action } }))}
          />
          <Ask
            trigger={<Button small>Close</Button>}
            title="Close the record"
            action="Close record"
            label="Outcome"
            text="Closing the last open record cordons the node. Uncordon the node when its checks pass."
            send={(text, header) => unwrap(client.POST("/api/v1/admin/nodes/{node_id}/break-fixes/{break_fix_id}:close", { params: { path, header }, body: { outcome: text } }))}
          />
        </div>
      )}
    </li>
  );
}

export function Finding({ finding, slots }: { finding: NodeFinding; slots: Slot[] }) {
  const { id: finding_id = "", node_id = "", severity = "info", source, code, device, message, last_time, count } = finding;
  return (
    <li className="node-health">
      <header>
        <strong>
          {whereOf(slots, finding.slot_id)}: {message || code}
        </strong>
        <Badge tone={TONES[severity] ?? "idle"}>{sentence(severity)}</Badge>
      </header>
      <p className="muted">
        {code} of {source}
        {device && `, ${device}`}. Seen {plural(Number(count ?? 1), "time")}, last <Time value={last_time} />.
      </p>
      <div className="page-actions">
        <Ask
          trigger={<Button small>Resolve</Button>}
          title="Resolve the finding"
          action="Resolve"
          label="Resolution"
          text="The finding opens again if the health agent reports it again."
          send={(resolution, header) => unwrap(client.POST("/api/v1/admin/nodes/{node_id}/findings/{finding_id}:resolve", { params: { path: { node_id, finding_id }, header }, body: { resolution } }))}
        />
      </div>
    </li>
  );
}

export function NodeHealth({ nodeId, hostname, slots }: { nodeId: string; hostname: string; slots: Slot[] }) {
  return (
    <Loaded of={[useBreakFixes(nodeId), useFindings(nodeId)]} lines={3} label="Loading break-fix records and findings">
      {(records, findings) => (
        <Card
          title="Break-fix records and findings"
          aside={
            <Ask
              trigger={
                <Button small>
                  <Wrench size={14} aria-hidden="true" /> Open a break-fix record
                </Button>
              }
              title={`Open a break-fix record of ${hostname}?`}
              action="Open record"
              label="Fault"
              text="The node takes no new allocations until the record is closed and the node is uncordoned."
              send={(fault, header) => unwrap(client.POST("/api/v1/admin/nodes/{node_id}/break-fixes", { params: { path: { node_id: nodeId }, header }, body: { fault } }))}
            />
          }
        >
          {records.length + findings.length === 0 && <p className="muted">No break-fix record and no open finding. Open a record when you work on a broken host. Health agents such as DCGM report findings through the API.</p>}
          <ul aria-label="Break-fix records and findings">
            {findings.map((finding) => (
              <Finding key={finding.id} finding={finding} slots={slots} />
            ))}
            {records.map((record) => (
              <Record key={record.id} record={record} slots={slots} />
            ))}
          </ul>
        </Card>
      )}
    </Loaded>
  );
}
