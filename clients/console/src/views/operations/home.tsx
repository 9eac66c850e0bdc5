/** The platform at a glance, for operators: capacity, blocked nodes by reason, and work against its deadline. */
import { Link } from "wouter";
import { useFleetCounts, useFleetNodes } from "../../api/catalog";
import { usePlacements } from "../../api/queries";
import { useEveryAllocation } from "../../api/tenants";
import type { Allocation } from "../../api/types";
import { nodesOf, useFleetWatch } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { duration } from "../../lib/time";
import { plural, sentence } from "../../lib/text";
import { Badge, Card, Skeleton, Time } from "../../ui/basics";
import { Loaded } from "../../ui/loaded";
import { Meter } from "../../ui/meter";
import { ProjectName } from "../../ui/project";
import { Page } from "../../ui/shell";
import { Table } from "../../ui/table";
import { useNow } from "../../ui/use-now";
import { LiveMark, WatchProblem } from "../../watch/live";
import { type Placements, healthParts } from "../nodes/fleet";
import { type OutOfService, outOfServiceOf, partsOfCounts } from "./counts";
import { type Blocked, UNDER_WAY, blockedBy, placedOf, underWay } from "./work";

const FEW = 8;
const NONE: Placements = new Map();

/** Why nobody gets GPUs that nobody has. */
function OutOfServiceWhy({ nodes }: { nodes: OutOfService[] }) {
  if (nodes.length === 0) return null;
  return (
    <p className="out-of-service">
      <small>
        Out of service:{" "}
        {nodes.slice(0, FEW).map(({ id, hostname, gpus, reason }, index) => (
          <span key={id}>
            {index > 0 && "; "}
            {gpus} on <Link href={`/admin/nodes/${id}`}>{hostname}</Link>, {reason}
          </span>
        ))}
        {nodes.length > FEW && ` and more on ${plural(nodes.length - FEW, "node")}`}
      </small>
    </p>
  );
}

function Capacity() {
  return (
    <Card title="GPUs" aside={<Link href="/admin/capacity">History</Link>}>
      <Loaded of={[useFleetCounts(), useFleetNodes()]} lines={3} label="Loading the counters">
        {({ gpus, nodes, pools = [] }, fleet) => (
          <>
            <p className="big">
              {gpus?.active ?? 0} <small>of {gpus?.delivered ?? 0} in active allocations, on {plural(Number(nodes?.delivered ?? 0), "node")}</small>
            </p>
            {pools.map((pool) => {
              const outOfService = outOfServiceOf(pool, fleet);
              return (
                <div key={`${pool.hardware_type} ${pool.region_code}`} className="pool">
                  <p>
                    <strong>{pool.hardware_type || "Without approved slots"}</strong> <span className="muted">{pool.region_code}</span>
                  </p>
                  <Meter parts={partsOfCounts(pool.gpus, outOfService)} label={`GPUs of ${pool.hardware_type || "nodes without slots"} in ${pool.region_code}`} legend />
                  <OutOfServiceWhy nodes={outOfService} />
                </div>
              );
            })}
            {pools.length === 0 && (
              <p className="muted">
                No node has slots yet. <Link href="/admin/nodes">Register a node</Link>, then approve its slots.
              </p>
            )}
          </>
        )}
      </Loaded>
    </Card>
  );
}

function BlockedNodes({ blocked }: { blocked: Blocked[] }) {
  return (
    <Card title="Blocked nodes" aside={<Link href="/admin/nodes">Show all</Link>}>
      {blocked.length === 0 ? (
        <p className="muted">No node is blocked.</p>
      ) : (
        <Table label="Blocked nodes by reason" columns={["Reason", ["Nodes", "number"]]}>
          {blocked.map(({ reason, nodes }) => (
            <tr key={reason}>
              <td>
                {sentence(reason)}
                <br />
                <small>
                  {nodes.slice(0, 4).map(({ id, config }, index) => (
                    <span key={id}>
                      {index > 0 && ", "}
                      <Link href={`/admin/nodes/${id}`}>{config?.hostname}</Link>
                    </span>
                  ))}
                  {nodes.length > 4 && <span className="muted"> and {nodes.length - 4} more</span>}
                </small>
              </td>
              <td className="number">{nodes.length}</td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

/** How long work has gone on, against its deadline. */
function Left({ allocation, now }: { allocation: Allocation; now: number }) {
  const { deadline } = allocation.status ?? {};
  const left = Date.parse(deadline ?? "") - now;
  return (
    <>
      {deadline && (left > 0 ? `${duration(left)} left` : <Badge tone="bad">Overdue</Badge>)}
      <small className="muted block">
        created <Time value={allocation.metadata?.create_time} />
      </small>
    </>
  );
}

function UnderWay({ found, placed }: { found: ReturnType<typeof useEveryAllocation>; /** How many have capacity. */ placed: number }) {
  const now = useNow(1000);
  return (
    <Card title="Allocations" aside={<Link href="/admin/allocations">Show all</Link>}>
      <Loaded of={[found]} lines={2} label="Loading the allocations in progress">
        {(rows) => {
          const allocations = underWay(rows.flatMap(({ allocation }) => allocation ?? []));
          return (
            <>
              <p className="muted">
                {plural(placed, "allocation")} with capacity, {allocations.length} in progress.
              </p>
              {allocations.length > 0 && (
                <Table label="Allocations in progress" columns={["Allocation", "Step", ["Deadline", "number"]]}>
                  {allocations.slice(0, FEW).map((allocation) => (
                    <tr key={allocation.id}>
                      <td>
                        <Link href={`/admin/allocations/${allocation.id}`}>
                          <strong>{nameOf(allocation)}</strong>
                        </Link>
                        <small className="block">
                          <ProjectName id={allocation.config?.project_id} />
                        </small>
                      </td>
                      <td>{allocation.status?.progress?.message || sentence(allocation.status?.state ?? "")}</td>
                      <td className="number">
                        <Left allocation={allocation} now={now} />
                      </td>
                    </tr>
                  ))}
                </Table>
              )}
              {allocations.length > FEW && (
                <p className="muted">
                  and <Link href="/admin/allocations">{allocations.length - FEW} more</Link>
                </p>
              )}
            </>
          );
        }}
      </Loaded>
    </Card>
  );
}

export default function OperatorHome() {
  const watched = useFleetWatch();
  const found = useEveryAllocation(UNDER_WAY);
  const placements = usePlacements().data ?? NONE;
  const fleet = watched.view;
  const nodes = fleet ? nodesOf(fleet) : [];
  const kept = ({ id = "" }: { id?: string }) => {
    const state = placements.get(id)?.admin_state;
    return state === "enabled" ? undefined : state;
  };
  return (
    <Page title="Platform overview" actions={<LiveMark watched={watched} />}>
      <WatchProblem watched={watched} />
      <div className="columns even">
        <div>
          <Capacity />
          {nodes.length > 0 && (
            <Card title="Nodes by health">
              <Meter parts={healthParts(nodes, placements)} label="Nodes by health" legend />
            </Card>
          )}
        </div>
        <div>
          {!fleet && !watched.problem && <Skeleton lines={6} label="Loading the fleet" />}
          {fleet && (
            <>
              <UnderWay found={found} placed={placedOf(Object.values(fleet.slots)).size} />
              <BlockedNodes blocked={blockedBy(nodes, kept)} />
            </>
          )}
        </div>
      </div>
    </Page>
  );
}
