/** What keeps a project from being closed. */
import { useReservations } from "../../api/capacity";
import { useTenantAllocations } from "../../api/tenants";
import { nameOf } from "../../lib/allocation-name";
import { sentence } from "../../lib/text";

/** So many are named. */
export const FEW = 8;

export interface Left {
  id: string;
  kind: "Allocation" | "Capacity reservation";
  name: string;
  state: string;
  /** Its page for operators. */
  to: string;
}

export interface Running {
  /** Allocations first; of many the first ones. */
  left: Left[];
  /** There are more than these. */
  more: boolean;
}

/** Allocations and reservations of a project that have not ended, as operators see them. */
export function useRunning(project_id: string) {
  const allocations = useTenantAllocations({ project_id, node_id: "", state: "", include_ended: false, filter: "" });
  const reservations = useReservations("operator", false, `project_id = ${project_id}`);
  const isLoaded = allocations.data !== undefined && reservations.data !== undefined;
  const data: Running | undefined = isLoaded
    ? {
        left: [
          ...allocations.data.pages.flatMap(({ allocations: all = [] }) => all).map(({ allocation = {} }): Left => ({ id: allocation.id ?? "", kind: "Allocation", name: nameOf(allocation), state: sentence(allocation.status?.state ?? ""), to: `/admin/allocations/${allocation.id}` })),
          ...reservations.data.pages.flatMap(({ reservations: all = [] }) => all).map(({ id = "", config, status }): Left => ({ id, kind: "Capacity reservation", name: config?.name ?? id, state: sentence(status?.state ?? ""), to: `/admin/reservations/${id}` })),
        ],
        more: allocations.hasNextPage || reservations.hasNextPage,
      }
    : undefined;
  return { data, error: allocations.error ?? reservations.error, refetch: () => Promise.all([allocations.refetch(), reservations.refetch()]) };
}

/** What is not named of them. */
export function restText({ left, more }: Running): string {
  return more ? "and more" : `and ${left.length - FEW} more`;
}

/** What a project is closed after, by name. */
export function LeftText({ running }: { running: Running | undefined }) {
  if (!running) return <p>Reading the allocations and reservations of the project.</p>;
  const { left, more } = running;
  if (left.length === 0) return <p>This is permanent. Nothing runs in it, and nothing is reserved for it.</p>;
  return (
    <>
      <p>This is permanent, and only possible once nothing runs in it and nothing is reserved for it. Release or cancel first:</p>
      <ul>
        {left.slice(0, FEW).map(({ id, kind, name }) => (
          <li key={id}>
            {kind} <strong>{name}</strong>
          </li>
        ))}
        {(left.length > FEW || more) && <li>{restText(running)}</li>}
      </ul>
    </>
  );
}
