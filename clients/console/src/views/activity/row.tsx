/** One activity: who did what, to which thing. */
import { Link } from "wouter";
import type { Activity } from "../../api/activity";
import { useEndedAllocation } from "../../api/queries";
import type { Allocation } from "../../api/types";
import type { ById } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { sentence, shortId } from "../../lib/text";
import { Badge, Time } from "../../ui/basics";
import type { Column } from "../../ui/table";

export const COLUMNS: Column[] = ["Time", "Who", "Activity", "Outcome", ["Reason", "optional"]];

/** Who it was, in words. */
export function whoOf({ actor = "", actor_kind }: Activity): string {
  if (actor_kind === "operator") return "An operator";
  return actor || "The platform";
}

/** A reason as people wrote it; one of the platform's own in words. */
export function reasonText(reason = ""): string {
  return /^[a-z]+(_[a-z]+)+$/.test(reason) ? sentence(reason) : reason;
}

/** The page that shows the thing; undefined where none does. */
export function pageOf({ allocation_id, resource, resource_id, kind = "" }: Activity): string | undefined {
  if (allocation_id) return `/allocations/${allocation_id}`;
  if (resource === "capacity_reservation" && resource_id) return `/reservations/${resource_id}`;
  if (["service_account", "api_key"].includes(kind)) return "/api-keys";
  if (kind.startsWith("webhook")) return "/project?tab=webhooks";
  if (kind === "allocation_grant") return "/project?tab=access";
  if (kind === "invitation") return "/project?tab=invitations";
  if (kind === "quota") return "/usage";
  return ["project", "project_member", "network"].includes(kind) ? "/project" : undefined;
}

/** Kinds that are about an allocation, whatever else they name. */
const OF_ALLOCATION = ["allocation", "terminal", "serial_log"];

/** What the thing is called: an allocation by the name that it has now. */
export function nameIn(activity: Activity, view: ById<Allocation> | undefined): string {
  const { name, allocation_id = "", kind } = activity;
  const allocation = view?.[allocation_id];
  if (allocation && OF_ALLOCATION.includes(kind ?? "")) return nameOf(allocation);
  return name || (allocation_id && shortId(allocation_id));
}

export function What({ activity, view }: { activity: Activity; view: ById<Allocation> | undefined }) {
  const page = pageOf(activity);
  const { allocation_id = "", kind = "" } = activity;
  // one that has ended is not among those that run
  const ended = useEndedAllocation(view && OF_ALLOCATION.includes(kind) && !view[allocation_id] ? allocation_id : "").data;
  const name = nameIn(activity, ended ? { ...view, [allocation_id]: ended } : view);
  const link = name || "Show";
  return (
    <span className="what">
      {activity.summary} {page ? <Link href={page}>{link}</Link> : name}
    </span>
  );
}

export function Row({ activity, view }: { activity: Activity; view: ById<Allocation> | undefined }) {
  const denied = activity.outcome === "denied";
  return (
    <tr className={denied ? "denied" : undefined}>
      <td className="tight">
        <Time value={activity.create_time} />
      </td>
      <td>{whoOf(activity)}</td>
      <td>
        <What activity={activity} view={view} />
      </td>
      <td>
        <Badge tone={denied ? "bad" : "good"}>{denied ? "Denied" : "Allowed"}</Badge>
      </td>
      <td className="optional">{reasonText(activity.reason) || "–"}</td>
    </tr>
  );
}
