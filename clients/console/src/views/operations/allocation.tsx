/** One allocation of any project, as operators see it: where it is, its devices, the calls to its host and its timeline. Nothing changes here, and nothing of the tenant's login is shown. */
import { Link } from "wouter";
import { useAllocationDetail } from "../../api/nodes";
import type { AllocationDetail, Claim } from "../../api/types";
import { useFleetWatch } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { bytes, sentence } from "../../lib/text";
import { Badge, Card, CopyButton, Facts, LabMark, Planned, Skeleton, Time, type Tone } from "../../ui/basics";
import { ProblemNote } from "../../ui/problem";
import { ProjectName } from "../../ui/project";
import { Back, Page } from "../../ui/shell";
import { type Column, Table } from "../../ui/table";
import { Conditions } from "../allocations/conditions";
import { partsOfFailure } from "../allocations/failure-message";
import { StateBadge } from "../allocations/state";
import { Timeline } from "../allocations/timeline";

const DEVICES: Column[] = ["Slot", "State", "GPU", "Disk", ["Fabric", "optional"], ["Claimed", "number optional"]];
const CALLS: Column[] = ["Call", "State", ["Began", "number"], ["Ended", "number optional"]];
const TONES: Record<string, Tone> = { done: "good", failed: "bad", running: "busy" };

function Device({ claim: { slot_index = 0, slot_id, kind, state = "", bindings, create_time, slot_generation } }: { claim: Claim }) {
  return (
    <tr>
      <td title={slot_id}>{kind === "slot" ? <strong>{slot_index}</strong> : "Bare metal"}</td>
      <td>
        {sentence(state)}
        {slot_generation && <small className="muted block">generation {slot_generation}</small>}
      </td>
      <td className="tight">{bindings?.gpu_pci_address ? <code>{bindings.gpu_pci_address}</code> : "–"}</td>
      <td>
        {bindings?.nvme_device ? <code>{bindings.nvme_device}</code> : "–"} {bindings?.nvme_bytes && <small className="muted">{bytes(Number(bindings.nvme_bytes))}</small>}
      </td>
      <td className="optional">{bindings?.fabric_device ? <code>{bindings.fabric_device}</code> : "–"}</td>
      <td className="number optional">
        <Time value={create_time} />
      </td>
    </tr>
  );
}

function Shown({ detail: { allocation = {}, node_id = "", claims = [], tasks = [], timeline = [] } }: { detail: AllocationDetail }) {
  const { id = "", config, status, metadata, creator } = allocation;
  const node = useFleetWatch().view?.nodes[node_id];
  const failure = status?.failure;
  return (
    <>
      <Conditions allocation={allocation} />
      {failure && (
        <p className="blocker">
          {partsOfFailure(failure.message ?? "").text} <span className="muted">{failure.reason}{failure.step && ` in step ${failure.step}`}</span>
        </p>
      )}
      {status?.progress && status.deadline && (
        <p className="notice">
          {status.progress.message} Times out <Time value={status.deadline} />.
        </p>
      )}
      <div className="columns">
        <div>
          <Card title="Devices">
            {claims.length === 0 ? (
              <p className="muted">This allocation has no slots.</p>
            ) : (
              <Table label="Devices" columns={DEVICES}>
                {claims.map((claim) => (
                  <Device key={claim.id} claim={claim} />
                ))}
              </Table>
            )}
            {claims.some(({ slot_generation }) => slot_generation) && <p className="muted">The generation counts the uses of a slot. Its disk is wiped and verified empty after each use.</p>}
          </Card>
          <Card title="Tasks on the node">
            {tasks.length === 0 ? (
              <p className="muted">There are no tasks on the node.</p>
            ) : (
              <Table label="Tasks on the node" columns={CALLS}>
                {tasks.map((task) => (
                  <tr key={task.id}>
                    <td>
                      <code>{task.type}</code>
                    </td>
                    <td>
                      <Badge tone={TONES[task.state ?? ""] ?? "idle"}>{sentence(task.state ?? "unknown")}</Badge>
                    </td>
                    <td className="number">
                      <Time value={task.create_time} />
                    </td>
                    <td className="number optional">{task.end_time ? <Time value={task.end_time} /> : "–"}</td>
                  </tr>
                ))}
              </Table>
            )}
          </Card>
          <Timeline entries={timeline} />
        </div>
        <div>
          <Card title="Details">
            <Facts
              rows={[
                ["Project", <ProjectName id={config?.project_id} />],
                ["Node", node_id ? <Link href={`/admin/nodes/${node_id}`}>{node?.config?.hostname ?? node_id.slice(0, 8)}</Link> : "–"],
                ["SKU", <>{config?.sku} × {config?.gpu_count}</>],
                ["Image", config?.image],
                ["Region", config?.region_code],
                ["Launched by", creator || "–"],
                ["Created", <Time value={metadata?.create_time} />],
                ["Active", <Time value={status?.active_time} />],
                ...(status?.release_time ? ([["Released", <Time value={status.release_time} />]] as [string, React.ReactNode][]) : []),
                ...(allocation.termination_protection ? ([["Protection", "The project cannot release the allocation"]] as [string, React.ReactNode][]) : []),
                ...(allocation.auto_release_time ? ([["Scheduled release", <Planned value={allocation.auto_release_time} />]] as [string, React.ReactNode][]) : []),
                ["VM", status?.vm ? <code>{status.vm}</code> : "–"],
                ["ID", <span className="id-line"><code title={id}>{id}</code><CopyButton text={id} label="Copy id" /></span>],
              ]}
            />
          </Card>
        </div>
      </div>
    </>
  );
}

export default function OperatorAllocation({ id }: { id: string }) {
  const found = useAllocationDetail(id);
  const crumb = <Back to="/admin/allocations">All allocations</Back>;
  const allocation = found.data?.allocation;
  if (!found.data || !allocation) {
    return (
      <Page title="Allocation" crumb={crumb}>
        {found.error ? <ProblemNote error={found.error} retry={() => found.refetch()} /> : <Skeleton lines={8} label="Loading the allocation" />}
      </Page>
    );
  }
  return (
    <Page
      crumb={crumb}
      name={nameOf(allocation)}
      title={
        <>
          {nameOf(allocation)} <StateBadge allocation={allocation} /> {allocation.status?.lab && <LabMark />}
        </>
      }
    >
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      <Shown detail={found.data} />
    </Page>
  );
}
