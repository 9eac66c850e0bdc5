/** One allocation: its details, login, cost and timeline. */
import { Tabs } from "radix-ui";
import { Suspense, lazy, useRef } from "react";
import { Link } from "wouter";
import { useGranted } from "../../api/grants";
import { useBounds } from "../../api/guardrails";
import { useSkus, useUsage } from "../../api/queries";
import type { Allocation, PlacementConstraints, Sku, TimelineEntry, VmResources } from "../../api/types";
import { useAllocationWatch } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { forbidden } from "../../lib/forbidden";
import { amountOf, exact, sum } from "../../lib/money";
import { knownHosts, sshCommand } from "../../lib/ssh";
import { duration } from "../../lib/time";
import { bytes, sentence } from "../../lib/text";
import { useProjectMay } from "../../session/roles";
import { Button, Card, Code, CopyButton, Empty, Facts, LabMark, MoneyText, Planned, Progress, Skeleton, Time } from "../../ui/basics";
import { KeyRound, SquareTerminal, TriangleAlert } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { Back, Page } from "../../ui/shell";
import { TabList } from "../../ui/tab-list";
import { useNow } from "../../ui/use-now";
import { tabOf, useQueryState, useQuerySwitch } from "../../ui/use-query-state";
import { LiveMark, WatchProblem } from "../../watch/live";
import { Actions } from "./actions";
import { WipeCertificates } from "./certificates";
import { Conditions } from "./conditions";
import { constraintsText } from "./constraints";
import { FailureMessage } from "./failure-message";
import { actorOf, observedIn } from "./operations";
import { Ending } from "./ending";
import { Ingress } from "./ingress";
import { ReadinessChecks } from "./readiness";
import { Rename } from "./rename";
import { StateBadge, isEnded, isReachable, isBaremetal, overallPercent } from "./state";
import { Timeline } from "./timeline";

const TerminalPanel = lazy(() => import("../../terminal/panel"));
const Sessions = lazy(() => import("../../terminal/sessions"));
const SerialLog = lazy(() => import("./serial-log"));
const Metrics = lazy(() => import("./metrics"));

const TERMINAL_BUTTON = "terminal-open";

function Running({ allocation, entries }: { allocation: Allocation; entries: TimelineEntry[] }) {
  const { progress, deadline, state } = allocation.status ?? {};
  const percent = overallPercent(allocation);
  const actor = actorOf(entries);
  if (!progress || percent === undefined) return null;
  return (
    <div className="under-way" role="status">
      <div className="under-way-line">
        <strong>{progress.message || sentence(progress.step ?? "")}</strong>
        <span className="muted">
          step {Math.min((progress.steps_done ?? 0) + 1, progress.steps_total ?? 0)} of {progress.steps_total}
        </span>
      </div>
      <Progress value={percent} label={state === "releasing" ? "Release" : "Launch"} />
      {actor && <small className="muted">At the request of {actor}. </small>}
      {deadline && (
        <small className="muted">
          Times out <Time value={deadline} />.
        </small>
      )}
    </div>
  );
}

/** Its position in the queue. */
function Queued({ allocation }: { allocation: Allocation }) {
  const queue = allocation.status?.queue;
  if (!queue) return null;
  return (
    <div className="under-way" role="status">
      <div className="under-way-line">
        <strong>{queue.position === 1 ? "Queued, next to be placed" : `Queued, position ${queue.position}`}</strong>
        <span className="muted">
          Waiting since <Time value={queue.since} />
        </span>
      </div>
      <p>{queue.message}</p>
      <small className="muted">
        Not billed while queued. Expires <Time value={queue.deadline} />.
      </small>
    </div>
  );
}

function Failure({ allocation, entries }: { allocation: Allocation; entries: TimelineEntry[] }) {
  const failure = allocation.status?.failure;
  const mayLaunch = useProjectMay("write", undefined, allocation.config?.project_id);
  if (!failure) return null;
  const observed = observedIn(entries);
  return (
    <div className="problem" role="alert">
      <TriangleAlert size={18} aria-hidden="true" />
      <div>
        <FailureMessage message={failure.message} />
        {observed && (
          <p>
            Last observed: <code>{observed}</code>
          </p>
        )}
        {failure.advice && <p>{failure.advice}</p>}
        <p className="problem-id">
          <span>{failure.reason}</span>
          {failure.step && <span>in step {failure.step}</span>}
        </p>
      </div>
      {mayLaunch && (
        <Link href={`/launch?again=${allocation.id}`} className="button small">
          Launch again
        </Link>
      )}
    </div>
  );
}

function Connect({ allocation, openTerminal, noTerminal }: { allocation: Allocation; openTerminal: (() => void) | undefined; /** Why there is none. */ noTerminal: string | undefined }) {
  const access = allocation.status?.access;
  if (isEnded(allocation) || allocation.status?.state === "releasing") return null;
  if (!access && isBaremetal(allocation) && allocation.status?.state === "active") {
    return (
      <Card title="Log in">
        <p className="muted">Login to bare-metal nodes is not available. The timeline shows how the node was provisioned.</p>
      </Card>
    );
  }
  if (!access?.ssh_ready || !access.ssh_host) {
    return (
      <Card title="Log in">
        <p className="muted">The SSH command appears here once a login has succeeded.</p>
      </Card>
    );
  }
  const hosts = knownHosts(access);
  return (
    <Card
      title="Log in"
      aside={
        openTerminal && (
          <Button id={TERMINAL_BUTTON} kind="primary" small onClick={openTerminal} disabled={!isReachable(allocation)}>
            <SquareTerminal size={15} aria-hidden="true" /> Terminal
          </Button>
        )
      }
    >
      <Code text={sshCommand(access)} label="SSH command" />
      {noTerminal && <p className="muted">{noTerminal}</p>}
      {hosts && (
        <details>
          <summary>Pin the host key before the first login</summary>
          <p className="muted">Append this line to your known_hosts file. The platform made this key before the first boot of the VM.</p>
          <Code text={hosts} label="known_hosts line" />
        </details>
      )}
    </Card>
  );
}

/** Of an allocation that may be of another project than the one that is looked at, as one that is opened from the usage of all projects. */
export function Cost({ id, project, open }: { id: string; project: string; open: boolean }) {
  const usage = useUsage({ allocation_id: id, project });
  const now = useNow(1000);
  if (usage.isPending) return <Card title="Cost so far"><Skeleton lines={2} label="Loading the cost" /></Card>;
  if (usage.error) return <Card title="Cost so far"><ProblemNote error={usage.error} retry={() => usage.refetch()} /></Card>;
  const { intervals, totals } = usage.data;
  const amounts = sum(totals.map(({ amount }) => amountOf(amount)));
  const milliseconds = intervals.reduce((total, { microseconds, start_time, end_time }) => total + (end_time || !start_time ? Number(microseconds ?? 0) / 1000 : now - Date.parse(start_time)), 0);
  const credited = intervals.reduce((total, { credited_microseconds }) => total + Number(credited_microseconds ?? 0) / 1000, 0);
  const latest = intervals[0];
  const price = amountOf(latest?.price_per_gpu_hour);
  return (
    <Card title={open ? "Cost so far" : "Cost"}>
      {amounts.length === 0 && <p className="muted">Billing starts when you can log in.</p>}
      {amounts.map((amount) => (
        <p className="big" key={amount.currency}>
          <MoneyText amount={amount} /> <small>{amount.currency}</small>
        </p>
      ))}
      {latest && (
        <p className="muted">
          {duration(milliseconds)}
          {credited > 0 && ` (${duration(credited)} of it credited)`} × {latest.gpu_count} GPU × {exact(price)} per GPU-hour
        </p>
      )}
    </Card>
  );
}

function labelsRow(labels: Record<string, string> = {}): [string, React.ReactNode][] {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return pairs.length > 0 ? [["Labels", <code>{pairs.join(", ")}</code>]] : [];
}

function placementRow(constraints: PlacementConstraints | undefined): [string, React.ReactNode][] {
  const text = constraintsText(constraints);
  return text ? [["Placement", text]] : [];
}

/** The keys as people know them: by name, otherwise by fingerprint. */
export function keysText(config: Allocation["config"]): string {
  const { ssh_keys = [], ssh_public_keys = [] } = config ?? {};
  return ssh_keys.length > 0 ? ssh_keys.map(({ name, fingerprint }) => name || fingerprint).join(", ") : `${ssh_public_keys.length}`;
}

/** What the VM has; before it is placed by the SKU as it is now. */
export function sizeRows(resources: VmResources | undefined, sku: Sku | undefined, gpus: number): [string, React.ReactNode][] {
  if (resources) {
    const { vcpus = 0, memory_mib = "0", disks = 0, disk_bytes = "0" } = resources;
    return [
      ["vCPU", `${vcpus}`],
      ["Memory", bytes(Number(memory_mib) * 1024 * 1024)],
      ["Disk", `${bytes(Number(disk_bytes))}, ${disks === 1 ? "1 dedicated disk" : `${disks} dedicated disks`}`],
    ];
  }
  const { vcpus_per_gpu = 0, memory_mib_per_gpu = 0 } = sku?.profile ?? {};
  if (!sku || sku.capacity_shape === "baremetal") return [];
  return [
    ["vCPU", `${gpus * vcpus_per_gpu}`],
    ["Memory", bytes(gpus * memory_mib_per_gpu * 1024 * 1024)],
    ["Disk", `${gpus} dedicated, one per GPU`],
  ];
}

function Details({ allocation }: { allocation: Allocation }) {
  const { config, status, metadata, creator, id = "" } = allocation;
  const mayChange = useProjectMay("write", undefined, config?.project_id);
  return (
    <Card title="Details" aside={mayChange && <span className="page-actions"><Rename allocation={allocation} />{!isEnded(allocation) && <Ending allocation={allocation} />}</span>}>
      <Facts
        rows={[
          ["Host name", <code>{config?.name}</code>],
          ["SKU", <>{config?.sku} × {config?.gpu_count}</>],
          ...sizeRows(status?.resources, useSkus().data?.find(({ code }) => code === config?.sku), config?.gpu_count ?? 0),
          ["Image", config?.image],
          ...(status?.rescue_image ? ([["Rescue image", status.rescue_image]] as [string, React.ReactNode][]) : []),
          ["Region", config?.region_code],
          ...placementRow(config?.placement),
          ["Private address", status?.access?.private_ip || "–"],
          ["Created", <Time value={metadata?.create_time} />],
          ...(creator ? ([["Launched by", creator]] as [string, React.ReactNode][]) : []),
          ["Active", <Time value={status?.active_time} />],
          ...(status?.release_time ? ([["Released", <Time value={status.release_time} />]] as [string, React.ReactNode][]) : []),
          ...(allocation.termination_protection ? ([["Protection", "A release is refused"]] as [string, React.ReactNode][]) : []),
          ...(allocation.auto_release_time ? ([["Scheduled release", <Planned value={allocation.auto_release_time} />]] as [string, React.ReactNode][]) : []),
          ...labelsRow(metadata?.labels),
          ["SSH keys", keysText(config)],
          ...(config?.user_data ? ([["User data", <>{config.user_data.size_bytes} bytes, <code>{config.user_data.digest}</code></>]] as [string, React.ReactNode][]) : []),
          ["ID", <span className="id-line"><code title={id}>{id}</code><CopyButton text={id} label="Copy id" /></span>],
        ]}
      />
    </Card>
  );
}

export default function AllocationView({ id }: { id: string }) {
  const watched = useAllocationWatch(id);
  const [terminal, setTerminal] = useQuerySwitch("terminal");
  const [wantedTab, setTab] = useQueryState("tab", "overview");
  const project = watched.view?.allocation?.config?.project_id ?? "";
  const mayChange = useProjectMay("write", undefined, project);
  const granted = useGranted(id, project);
  const bounds = useBounds({ project_id: project }).data;
  const wasShown = useRef(false);
  const crumb = <Back to="/allocations">Allocations</Back>;
  const allocation = watched.view?.allocation;
  if (!watched.view || !allocation) {
    return (
      <Page title="Allocation" crumb={crumb}>
        <WatchProblem watched={watched} />
        {!watched.problem && <Skeleton lines={8} label="Loading the allocation" />}
      </Page>
    );
  }
  const open = !isEnded(allocation);
  const tab = tabOf(wantedTab, isBaremetal(allocation) ? ["overview"] : ["overview", "metrics", ...(granted.serial ? ["serial"] : [])]);
  const stopper = actorOf(watched.view.entries, "stopping");
  const isRunning = granted.terminal && allocation.status?.state === "active" && isReachable(allocation) && !isBaremetal(allocation);
  // an open terminal stays with what it shows when the VM stops
  const noTerminal = forbidden(bounds, "terminals_disabled");
  const noSerial = forbidden(bounds, "serial_logs_disabled");
  const showsTerminal = terminal && (wasShown.current || (isRunning && bounds !== undefined && !noTerminal));
  wasShown.current = showsTerminal;
  const closeTerminal = () => {
    setTerminal(false);
    requestAnimationFrame(() => document.getElementById(TERMINAL_BUTTON)?.focus());
  };
  return (
    <Page
      crumb={crumb}
      name={nameOf(allocation)}
      title={
        <>
          {nameOf(allocation)} <StateBadge allocation={allocation} /> {allocation.status?.lab && <LabMark />}
        </>
      }
      actions={
        <>
          <LiveMark watched={watched} />
          {mayChange && <Actions allocation={allocation} />}
        </>
      }
    >
      <WatchProblem watched={watched} />
      <Conditions allocation={allocation} />
      <Queued allocation={allocation} />
      <Running allocation={allocation} entries={watched.view.entries} />
      <Failure allocation={allocation} entries={watched.view.entries} />
      {allocation.status?.power === "stopped" && open && (
        <p className="notice">Stopped{stopper && ` by ${stopper}`}. Billing continues because its GPUs stay allocated. Release the allocation to stop billing.</p>
      )}
      {showsTerminal && (
        <Suspense fallback={<Skeleton lines={8} label="Loading the terminal" />}>
          <TerminalPanel id={id} isRunning={isRunning} close={closeTerminal} />
        </Suspense>
      )}
      <Tabs.Root value={tab} onValueChange={setTab} className="tabs">
        {!isBaremetal(allocation) && (
          <TabList label="Views of the allocation" chosen={tab}>
            <Tabs.Trigger value="overview">Overview</Tabs.Trigger>
            <Tabs.Trigger value="metrics">Metrics</Tabs.Trigger>
            {granted.serial && <Tabs.Trigger value="serial">Serial log</Tabs.Trigger>}
          </TabList>
        )}
        <Tabs.Content value="overview">
          <div className="columns">
            <div>
              <Connect allocation={allocation} openTerminal={granted.terminal && !showsTerminal && !noTerminal ? () => setTerminal(true) : undefined} noTerminal={granted.terminal ? noTerminal : undefined} />
              <Timeline entries={watched.view.entries} />
            </div>
            <div>
              <Cost id={id} project={project} open={open} />
              <Details allocation={allocation} />
              <Ingress allocation={allocation} />
              <ReadinessChecks results={allocation.status?.readiness_checks} />
              <WipeCertificates allocation={allocation} />
              {granted.sessions && (
                <Suspense fallback={null}>
                  <Sessions id={id} />
                </Suspense>
              )}
            </div>
          </div>
        </Tabs.Content>
        <Tabs.Content value="metrics">
          <Suspense fallback={<Skeleton lines={8} label="Loading the metrics" />}>
            <Metrics id={id} allocation={allocation} />
          </Suspense>
        </Tabs.Content>
        <Tabs.Content value="serial">
          {noSerial ? (
            <Empty icon={<KeyRound size={28} />} title={noSerial.replace(/\.$/, "")}>
              Its owners can change that.
            </Empty>
          ) : (
            bounds && (
              <Suspense fallback={<Skeleton lines={8} label="Loading the serial log" />}>
                <SerialLog id={id} name={allocation.config?.name ?? id} />
              </Suspense>
            )
          )}
        </Tabs.Content>
      </Tabs.Root>
    </Page>
  );
}
