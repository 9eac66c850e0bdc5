/** What a member sees first: what runs, what it has cost, what is left, and what happened. */
import { Link } from "wouter";
import { useLatestActivities } from "../../api/activity";
import { useLatestHealthEvents } from "../../api/health";
import { useQuotas, useUsage } from "../../api/queries";
import { useProjectId, useTenantProject } from "../../api/tenancy";
import type { Allocation } from "../../api/types";
import { type ById, useAllocationsWatch } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { type Amount, amountOf, sum, times } from "../../lib/money";
import { plural } from "../../lib/text";
import { projectOf, useProjectMay } from "../../session/roles";
import { useSession } from "../../session/session";
import { Card, Empty, LabMark, MoneyText, Skeleton, Time } from "../../ui/basics";
import { Cpu, Plus } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { Meter } from "../../ui/meter";
import { Page } from "../../ui/shell";
import { Table } from "../../ui/table";
import { LiveMark, WatchProblem } from "../../watch/live";
import Granted from "../allocations/granted";
import { StateBadge, isEnded } from "../allocations/state";
import { Suspended } from "../project/suspended";
import { partsOf, quotasOf } from "../usage/quotas";
import { What, whoOf } from "../activity/row";
import { EventBadge } from "../health/badge";
import { Named } from "./named";
import { spentSince, startOf } from "./spent";

const FEW = 6;

function Running({ view, mayLaunch }: { view: ById<Allocation>; mayLaunch: boolean }) {
  const rows = Object.values(view)
    .filter((allocation) => !isEnded(allocation))
    .sort((a, b) => (b.metadata?.create_time ?? "").localeCompare(a.metadata?.create_time ?? ""));
  if (rows.length === 0) {
    return (
      <Card title="Allocations">
        <Empty
          icon={<Cpu size={28} />}
          title="No active allocations"
          action={
            mayLaunch && (
              <Link href="/launch" className="button primary">
                Launch an allocation
              </Link>
            )
          }
        >
          An allocation is a virtual machine with dedicated GPUs. It is billed from the moment you can log in until you release it.
        </Empty>
      </Card>
    );
  }
  return (
    <Card title="Allocations" aside={<Link href="/allocations">Show all</Link>}>
      <Table label="Running allocations" columns={["Name", "State", ["GPUs", "number"], ["Created", "number"]]}>
        {rows.slice(0, FEW).map((allocation) => (
          <tr key={allocation.id}>
            <td className="tight">
              <Link href={`/allocations/${allocation.id}`} className="row-name">
                {nameOf(allocation)}
              </Link>{" "}
              {allocation.status?.lab && <LabMark />}
            </td>
            <td>
              <StateBadge allocation={allocation} />
            </td>
            <td className="number">{allocation.config?.gpu_count}</td>
            <td className="number">
              <Time value={allocation.metadata?.create_time} />
            </td>
          </tr>
        ))}
      </Table>
      {rows.length > FEW && <p className="muted">{plural(rows.length - FEW, "more allocation")}.</p>}
    </Card>
  );
}

function Cost() {
  const usage = useUsage({ from: startOf("month", Date.now()) });
  return (
    <Card title="Cost this month" aside={<Link href="/usage">Details</Link>}>
      <Loaded of={[usage]} lines={2} label="Loading the cost">
        {({ intervals }) => {
          const now = Date.now();
          const open = intervals.filter(({ end_time }) => !end_time);
          const hourly = sum(open.map(({ price_per_gpu_hour, gpu_count }): Amount => times(amountOf(price_per_gpu_hour), gpu_count ?? 0)));
          const month = spentSince(intervals, startOf("month", now), now);
          return (
            <>
              {month.length === 0 && <p className="muted">Nothing was billed this month. Billing starts when you can log in.</p>}
              {month.map((amount) => (
                <p className="big" key={amount.currency}>
                  <MoneyText amount={amount} />
                </p>
              ))}
              {spentSince(intervals, startOf("day", now), now).map((amount) => (
                <p className="muted" key={amount.currency}>
                  <MoneyText amount={amount} /> of it today
                </p>
              ))}
              {hourly.map((amount) => (
                <p className="muted" key={amount.currency}>
                  <MoneyText amount={amount} /> per hour now
                </p>
              ))}
            </>
          );
        }}
      </Loaded>
    </Card>
  );
}

function Limits() {
  return (
    <Card title="Quota left">
      <Loaded of={[useQuotas()]} lines={3} label="Loading quotas">
        {(data) => (
          <ul className="meters">
            {quotasOf(data).map((quota) => (
              <li key={quota.name}>
                <p>
                  {quota.name}{" "}
                  <span className="muted">
                    {Math.max(0, quota.limit - quota.used)} of {quota.limit} left
                  </span>
                </p>
                <Meter parts={partsOf(quota)} label={quota.name} />
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </Card>
  );
}

function Latest({ view }: { view: ById<Allocation> | undefined }) {
  const session = useSession();
  const latest = useLatestActivities((session && projectOf(session)?.id) ?? "", FEW);
  return (
    <Card title="Activity" aside={<Link href="/activity">Show all</Link>}>
      <Loaded of={[latest]} lines={3} label="Loading the activity">
        {({ activities = [] }) =>
          activities.length === 0 ? (
            <p className="muted">No activity yet.</p>
          ) : (
            <ul className="events">
              {activities.map((activity) => (
                <li key={activity.id}>
                  <p>
                    <What activity={activity} view={view} />
                  </p>
                  <small className="muted">
                    {whoOf(activity)}, <Time value={activity.create_time} />
                  </small>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  );
}

function Events({ view }: { view: ById<Allocation> | undefined }) {
  const events = useLatestHealthEvents(useSession()?.project ?? "", FEW);
  return (
    <Card title="Health of your GPUs" aside={<Link href="/health-events">Show all</Link>}>
      <Loaded of={[events]} lines={2} label="Loading events">
        {(found) =>
          found.length === 0 ? (
            <p className="muted">No GPU faults.</p>
          ) : (
            <ul className="events">
              {found.map((event) => (
                <li key={`${event.id} ${event.allocation_id}`}>
                  <p>
                    <EventBadge event={event} /> {event.message}
                  </p>
                  <small className="muted">
                    <Named id={event.allocation_id ?? ""} view={view} />, <Time value={event.start_time} />
                  </small>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  );
}

export default function Overview() {
  const mayRead = useProjectMay("read");
  const isSuspended = useTenantProject(useProjectId()).data?.state === "suspended";
  const mayLaunch = useProjectMay("write") && !isSuspended;
  const watched = useAllocationsWatch();
  return (
    <Page
      title="Overview"
      actions={
        <>
          {mayRead && <LiveMark watched={watched} />}
          {mayLaunch && (
            <Link href="/launch" className="button primary">
              <Plus size={16} aria-hidden="true" /> Launch
            </Link>
          )}
        </>
      }
    >
      <Suspended />
      <WatchProblem watched={watched} />
      <div className="columns">
        {mayRead && (
          <div>
            {watched.view ? <Running view={watched.view} mayLaunch={mayLaunch} /> : !watched.problem && <Skeleton lines={6} label="Loading allocations" />}
            <Latest view={watched.view} />
            <Events view={watched.view} />
          </div>
        )}
        <div>
          {!mayRead && <Granted />}
          <Cost />
          <Limits />
        </div>
      </div>
    </Page>
  );
}
