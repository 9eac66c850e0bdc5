/** All times in which GPUs of the project were not healthy, or their host was under break-fix. */
import { type HealthEvent, type HealthFilter, useHealthEvents } from "../../api/health";
import { useAllocation } from "../../api/queries";
import type { Allocation } from "../../api/types";
import { type ById, useAllocationsWatch } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { plural, shortId } from "../../lib/text";
import { projectOf } from "../../session/roles";
import { useSession } from "../../session/session";
import { Empty, Time } from "../../ui/basics";
import { Select } from "../../ui/form";
import { Activity } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { NoMatch } from "../../ui/no-match";
import { Back, Page } from "../../ui/shell";
import { ShowMore } from "../../ui/show-more";
import { type Column, TableCard } from "../../ui/table";
import { useQueryReset, useQueryState } from "../../ui/use-query-state";
import { Named } from "../overview/named";
import { EventBadge, kindOf } from "./badge";

const COLUMNS: Column[] = ["Allocation", "State", "Kind", ["GPUs", "number"], ["From", "number"], ["To", "number"]];
const KINDS: { value: HealthFilter["kind"]; label: string }[] = [
  { value: "", label: "All" },
  { value: "failed", label: "Failed" },
  { value: "degraded", label: "Degraded" },
  { value: "unknown", label: "Unknown" },
  { value: "break_fix", label: "Break-fix" },
];
const STATES: { value: HealthFilter["state"]; label: string }[] = [
  { value: "", label: "All" },
  { value: "open", label: "Open" },
  { value: "resolved", label: "Resolved" },
];

function Row({ event, view }: { event: HealthEvent; view: ById<Allocation> | undefined }) {
  const { allocation_id = "", gpu_count, start_time, end_time, message } = event;
  return (
    <tr>
      <td className="tight">
        <Named id={allocation_id} view={view} />
      </td>
      <td className="tight">
        <EventBadge event={event} />
      </td>
      <td>
        {message}
        {end_time && <small className="muted block">{kindOf(event)}</small>}
      </td>
      <td className="number">{gpu_count}</td>
      <td className="number tight">
        <Time value={start_time} />
      </td>
      <td className="number tight">
        <Time value={end_time} />
      </td>
    </tr>
  );
}

/** The allocations to choose from: those that run, and the one of the address. */
function useChoice(view: ById<Allocation> | undefined, chosen: string): { value: string; label: string }[] {
  const other = useAllocation(view && !view[chosen] ? chosen : "").data;
  const live = Object.values(view ?? {}).map((one) => ({ value: one.id ?? "", label: nameOf(one) }));
  const missing = chosen !== "" && !view?.[chosen] ? [{ value: chosen, label: other ? nameOf(other) : shortId(chosen) }] : [];
  return [{ value: "", label: "All" }, ...[...live, ...missing].sort((a, b) => a.label.localeCompare(b.label))];
}

export default function HealthEvents() {
  const session = useSession();
  const { view } = useAllocationsWatch();
  const [allocation_id, setAllocation] = useQueryState("allocation");
  const [wantedKind, setKind] = useQueryState("kind");
  const [wantedState, setState] = useQueryState("state");
  const clear = useQueryReset(["allocation", "kind", "state"]);
  const kind = KINDS.find(({ value }) => value === wantedKind)?.value ?? "";
  const state = STATES.find(({ value }) => value === wantedState)?.value ?? "";
  const found = useHealthEvents((session && projectOf(session)?.id) ?? "", { allocation_id, kind, state });
  const filtered = allocation_id !== "" || kind !== "" || state !== "";
  return (
    <Page title="Health events" crumb={<Back to="/overview">Overview</Back>}>
      <p className="muted">GPU faults, and work on broken hosts (break-fix), during your allocations.</p>
      <div className="filters" role="search" aria-label="Health events">
        <Select label="State" value={state} onChoose={setState} options={STATES} />
        <Select label="Kind" value={kind} onChoose={setKind} options={KINDS} />
        <Select label="Allocation" value={allocation_id} onChoose={setAllocation} options={useChoice(view, allocation_id)} />
      </div>
      <Loaded of={[found]} lines={6} label="Loading health events">
        {(events) => {
          if (events.length > 0) {
            return (
              <TableCard
                label="Health events"
                columns={COLUMNS}
                foot={
                  <>
                    {!found.more && (
                      <span className="muted" role="status">
                        {plural(events.length, "event")}
                      </span>
                    )}
                    <ShowMore of={found} noun="event" />
                  </>
                }
              >
                {events.map((event) => (
                  <Row key={`${event.id} ${event.allocation_id}`} event={event} view={view} />
                ))}
              </TableCard>
            );
          }
          return filtered ? (
            <NoMatch title="No health event matches" clear={clear}>
              Choose another state, kind or allocation.
            </NoMatch>
          ) : (
            <Empty icon={<Activity size={28} />} title="No health events">
              There were no GPU faults and no break-fix during the allocations of the project.
            </Empty>
          );
        }}
      </Loaded>
    </Page>
  );
}
