/** How reservations look, and what is said of all of them. */
import type { Side } from "../../api/capacity";
import type { Reservation } from "../../api/types";
import { span } from "../../lib/time";
import { sentence } from "../../lib/words";
import { Badge, Planned, Time } from "../../ui/basics";
import { Meter } from "../../ui/meter";
import { useNow } from "../../ui/use-now";
import { TONES, isOver, partsOf, usageText } from "./rules";

const MINUTE_MS = 60_000;

/** Where the views of a side are. */
export const HOME: Record<Side, string> = { project: "/reservations", operator: "/admin/reservations" };
export const TITLE: Record<Side, string> = { project: "Reservations", operator: "All reservations" };

export function StateBadge({ reservation }: { reservation: Reservation }) {
  const { state = "unspecified", reason } = reservation.status ?? {};
  return (
    <Badge tone={TONES[state] ?? "idle"} title={reason}>
      {sentence(state)}
    </Badge>
  );
}

/** For how long the one that is longest without use is without. */
export function Unused({ reservation }: { reservation: Reservation }) {
  const now = useNow(15_000);
  const { unused_since, unused_gpus = 0 } = reservation.status ?? {};
  if (!unused_since || unused_gpus === 0) return null;
  const length = now - Date.parse(unused_since);
  return <small className="warn-text">unused for {length < MINUTE_MS ? "less than a minute" : `up to ${span(length)}`}</small>;
}

/** Its GPUs as a bar with the words below. */
export function Gpus({ reservation }: { reservation: Reservation }) {
  return (
    <>
      {!isOver(reservation) && <Meter parts={partsOf(reservation)} label={`GPUs of ${reservation.config?.name}`} />}
      <small>{usageText(reservation)}</small>
      <Unused reservation={reservation} />
    </>
  );
}

export function Window({ reservation }: { reservation: Reservation }) {
  const { config, status, metadata } = reservation;
  const waits = status?.state === "scheduled";
  const [word, time] = isOver(reservation) ? ["ended", metadata?.end_time] : waits ? ["begins", config?.start_time] : ["ends", config?.end_time];
  return (
    <>
      <Planned value={config?.start_time} short /> to <Planned value={config?.end_time} short />
      <br />
      <small className="muted">
        {word} <Time value={time} />
      </small>
    </>
  );
}

/** Who may launch on it, and what it costs. */
export const WHO: Record<Side, string> = {
  project: "Only members of this project launch on what is reserved for it. Launch as always: reserved GPUs are taken first, and come back when the allocation ends. Nothing is billed for a reservation; allocations are.",
  operator: "Only members of a reservation’s project launch on it; everybody else is refused those GPUs without learning whose they are. Reservations come before those who wait in line, and are not billed.",
};
