/** The report of validate-host that is attached to a node: what passed, what failed, and what was done by hand, with its dates. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type KeyHeader, useOnce } from "../../api/attempt";
import { client, unwrap } from "../../api/client";
import { useHostReport } from "../../api/nodes";
import type { AttachedHostReport, HostReport } from "../../api/types";
import { plural, sentence } from "../../lib/text";
import { Badge, Button, Card, Facts, Skeleton, Time, type Tone } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Field } from "../../ui/form";
import { ProblemNote } from "../../ui/problem";
import { type Column, TableCard } from "../../ui/table";

const TONES: Record<string, Tone> = { PASS: "good", FAIL: "bad", WARN: "warn", SKIP: "idle" };
const ORDER = ["FAIL", "WARN", "PASS", "SKIP"];
const CHECKS: Column[] = ["Check", "Result", "Details"];
const BY_HAND: Column[] = ["By hand", "State", "Result"];
export const MAX_BYTES = 256 * 1024;

const isDone = ({ result = "" }: { result?: string }) => result.trim() !== "";

/** "14 passed, 1 failed, 2 of 18 done by hand". */
export function summaryOf({ checks = [], by_hand = [] }: HostReport): string {
  const of = (wanted: string) => checks.filter(({ status }) => status === wanted).length;
  const parts = [`${of("PASS")} passed`, ...(of("FAIL") ? [`${of("FAIL")} failed`] : []), ...(of("WARN") ? [`${plural(of("WARN"), "warning")}`] : [])];
  return [...parts, `${by_hand.filter(isDone).length} of ${by_hand.length} done by hand`].join(", ");
}

/** The report in the text of a file; a text for what is none. All else is for the platform to judge. */
export function reportIn(text: string): HostReport | string {
  if (new TextEncoder().encode(text).length > MAX_BYTES) return "The file is larger than 256 KiB. It is not a report of validate-host.";
  try {
    const found: unknown = JSON.parse(text);
    return typeof found === "object" && found !== null && "schema" in found ? (found as HostReport) : "The file is not a report of validate-host.";
  } catch {
    return "The file is not JSON.";
  }
}

function Attach({ nodeId, hostname }: { nodeId: string; hostname: string }) {
  const queries = useQueryClient();
  const [read, setRead] = useState<HostReport | string>();
  const report = typeof read === "object" ? read : undefined;
  const attach = useOnce(nodeId, (body: { report: HostReport }, header: KeyHeader) => unwrap(client.POST("/api/v1/admin/nodes/{node_id}/host-reports", { params: { path: { node_id: nodeId }, header }, body })));
  const run = async () => {
    if (!report) return;
    await attach({ report });
    setRead(undefined);
    await queries.invalidateQueries({ queryKey: ["host-report", nodeId] });
  };
  return (
    <Confirm needs="operate" trigger={<Button small>Attach a report</Button>} title={`Attach a report to ${hostname}`} action="Attach" ready={!!report} run={run}>
      <p>
        On the host run <code>gpuaas-node-agent validate-host --report host.json</code>, fill in <code>result</code> of what you did by hand, with the date, and choose the file.
      </p>
      <Field label="Report" problem={typeof read === "string" ? read : undefined} hint={report && summaryOf(report)}>
        {({ id, describedBy }) => <input id={id} aria-describedby={describedBy} type="file" accept=".json,application/json" onChange={async (event) => setRead(event.target.files?.[0] && reportIn(await event.target.files[0].text()))} />}
      </Field>
    </Confirm>
  );
}

/** What is attached. */
export function Attached({ attached }: { attached: AttachedHostReport }) {
  const { report = {}, principal, attach_time } = attached;
  const { checks = [], by_hand = [], blockers = [] } = report;
  const sorted = [...checks].sort((a, b) => ORDER.indexOf(a.status ?? "") - ORDER.indexOf(b.status ?? ""));
  return (
    <>
      <Facts
        rows={[
          ["Result", summaryOf(report)],
          ["Blockers", blockers.length > 0 ? blockers.join(", ") : "None"],
          ["Made", <Time value={report.time} />],
          ["Attached", <><Time value={attach_time} /> by {principal}</>],
          ["Agent", report.agent_version],
          ["Kind", report.kind],
        ]}
      />
      <details>
        <summary>All results</summary>
        <TableCard label="Checks of the report" columns={CHECKS}>
          {sorted.map(({ check = "", status = "", detail, remediation }) => (
            <tr key={check}>
              <td>{sentence(check)}</td>
              <td>
                <Badge tone={TONES[status] ?? "idle"}>{sentence(status.toLowerCase())}</Badge>
              </td>
              <td className="breaks">
                {detail} {(status === "FAIL" || status === "WARN") && remediation && <small className="muted block">{remediation}</small>}
              </td>
            </tr>
          ))}
        </TableCard>
        <TableCard label="Done by hand" columns={BY_HAND}>
          {by_hand.map((one) => (
            <tr key={one.id}>
              <td title={one.why}>{sentence(one.id ?? "")}</td>
              <td>
                <Badge tone={isDone(one) ? "good" : "idle"}>{isDone(one) ? "Done" : "Not done"}</Badge>
              </td>
              <td className="breaks">{isDone(one) ? one.result : `${one.what} Good: ${one.good}`}</td>
            </tr>
          ))}
        </TableCard>
      </details>
    </>
  );
}

export function AttachedReport({ nodeId, hostname }: { nodeId: string; hostname: string }) {
  const found = useHostReport(nodeId);
  return (
    <Card title="Report of the host" aside={<Attach nodeId={nodeId} hostname={hostname} />}>
      {found.isPending && <Skeleton lines={3} label="Loading the report" />}
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      {found.data === null && <p className="muted">No report is attached. Run validate-host on the host and attach its report.</p>}
      {found.data && <Attached attached={found.data} />}
    </Card>
  );
}
