/** Who did what in the project, newest first. */
import { type ActivityFilter, useActivities } from "../../api/activity";
import { useAllocationsWatch } from "../../api/watches";
import { plural } from "../../lib/text";
import { zone } from "../../lib/time";
import { projectOf } from "../../session/roles";
import { useSession } from "../../session/session";
import { Button, Empty, Skeleton } from "../../ui/basics";
import { Select } from "../../ui/form";
import { ScrollText } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { TableCard } from "../../ui/table";
import { TextFilter, TimeFilter, moment } from "../../ui/text-filter";
import { useQueryReset, useQueryState } from "../../ui/use-query-state";
import { COLUMNS, Row } from "./row";
import "../../styles/audit.css";

const OUTCOMES = [
  { value: "" as const, label: "All" },
  { value: "allowed" as const, label: "Allowed" },
  { value: "denied" as const, label: "Denied" },
];
const KINDS = [
  ["", "All"],
  ["allocation", "Allocations"],
  ["terminal", "Terminals"],
  ["serial_log", "Serial logs"],
  ["reservation", "Reservations"],
  ["project_member", "Members"],
  ["invitation", "Invitations"],
  ["allocation_grant", "Access to one allocation"],
  ["service_account", "Service accounts"],
  ["api_key", "API keys"],
  ["project_ssh_key", "SSH keys"],
  ["webhook", "Webhooks"],
  ["project", "The project"],
  ["quota", "Quotas"],
].map(([value = "", label = ""]) => ({ value, label }));
const KEYS = ["kind", "who", "outcome", "from", "to"];

export default function ActivityPage() {
  const [kind, setKind] = useQueryState("kind");
  const [actor, setActor] = useQueryState("who");
  const [outcome, setOutcome] = useQueryState("outcome");
  const [from, setFrom] = useQueryState("from");
  const [to, setTo] = useQueryState("to");
  const clear = useQueryReset(KEYS);
  const session = useSession();
  const project = (session && projectOf(session)?.id) ?? "";
  const chosen = OUTCOMES.find(({ value }) => value === outcome)?.value ?? "";
  const filter: ActivityFilter = { kind, actor, outcome: chosen, start_time: moment(from), end_time: moment(to) };
  const found = useActivities(project, filter);
  const { view } = useAllocationsWatch();
  const activities = found.data?.pages.flatMap((page) => page.activities ?? []) ?? [];
  const filtered = Object.values(filter).some((value) => value !== "");
  return (
    <Page
      title="Activity"
      actions={
        <Button busy={found.isRefetching} onClick={() => found.refetch()}>
          Refresh
        </Button>
      }
    >
      <p className="intro muted">Who did what in this project, and what was denied, the newest first.</p>
      <div className="filters audit-filters" role="search" aria-label="Activity">
        <Select label="Kind" value={kind} onChoose={setKind} options={KINDS} />
        <TextFilter label="Who" placeholder="user:alice" value={actor} onChange={setActor} />
        <Select label="Outcome" value={chosen} onChoose={setOutcome} options={OUTCOMES} />
        <TimeFilter label="From" value={from} onChange={setFrom} />
        <TimeFilter label="To" value={to} onChange={setTo} />
      </div>
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      {found.isLoading && <Skeleton lines={8} label="Loading the activity" />}
      {found.data?.pages.some(({ incomplete }) => incomplete) && (
        <p className="blocker" role="alert">
          A part of the platform did not answer: its activities are missing here.
        </p>
      )}
      {found.data && activities.length === 0 && !found.hasNextPage && (
        <Empty icon={<ScrollText size={28} />} title={filtered ? "No activity matches" : "No activity yet"} action={filtered && <Button onClick={clear}>Clear the filters</Button>}>
          Launches, changes of members and keys, terminals and what was denied are shown here.
        </Empty>
      )}
      {(activities.length > 0 || found.hasNextPage) && (
        <TableCard
          label="Activity"
          columns={COLUMNS}
          foot={
            <>
              <span className="muted" role="status">
                {plural(activities.length, "activity", "activities")}
                {found.hasNextPage ? ", and more" : ""}. Times in {zone}.
              </span>
              {found.hasNextPage && (
                <Button small busy={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
                  Show more
                </Button>
              )}
            </>
          }
        >
          {activities.map((activity) => (
            <Row key={activity.id} activity={activity} view={view} />
          ))}
        </TableCard>
      )}
    </Page>
  );
}
