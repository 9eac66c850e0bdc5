/** Who did what in the project, newest first. */
import { type ActivityFilter, useActivities } from "../../api/activity";
import { useAllocationsWatch } from "../../api/watches";
import { projectOf } from "../../session/roles";
import { useSession } from "../../session/session";
import { Button, Empty, Skeleton } from "../../ui/basics";
import { Select } from "../../ui/form";
import { ScrollText } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { TableCard } from "../../ui/table";
import { TrailFilters, TrailFoot, useTrail } from "../../ui/trail";
import { useQueryState } from "../../ui/use-query-state";
import { COLUMNS, Row } from "./row";

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

export default function ActivityPage() {
  const [kind, setKind] = useQueryState("kind");
  const trail = useTrail(["kind"]);
  const session = useSession();
  const project = (session && projectOf(session)?.id) ?? "";
  const filter: ActivityFilter = { kind, actor: trail.who, ...trail.times };
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
      <p className="intro muted">Changes and denied attempts in this project, the newest first.</p>
      <TrailFilters label="Activity" trail={trail}>
        <Select label="Kind" value={kind} onChoose={setKind} options={KINDS} />
      </TrailFilters>
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      {found.isLoading && <Skeleton lines={8} label="Loading the activity" />}
      {found.data?.pages.some(({ incomplete }) => incomplete) && (
        <p className="blocker" role="alert">
          A service of the platform did not answer: its activities are missing here.
        </p>
      )}
      {found.data && activities.length === 0 && !found.hasNextPage && (
        <Empty icon={<ScrollText size={28} />} title={filtered ? "No activity matches" : "No activity yet"} action={filtered && <Button onClick={trail.clear}>Clear the filters</Button>}>
          Launches, changes of members and keys, terminals and denied attempts appear here.
        </Empty>
      )}
      {(activities.length > 0 || found.hasNextPage) && (
        <TableCard
          label="Activity"
          columns={COLUMNS}
          foot={<TrailFoot count={activities.length} noun="activity" many="activities" of={found} />}
        >
          {activities.map((activity) => (
            <Row key={activity.id} activity={activity} view={view} />
          ))}
        </TableCard>
      )}
    </Page>
  );
}
