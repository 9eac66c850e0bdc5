/** Shared parts of the reservation views. */
import type { Side } from "../../api/capacity";
import type { Reservation } from "../../api/types";
import { span } from "../../lib/time";
import { sentence } from "../../lib/text";
import { Badge, Planned, Time } from "../../ui/basics";
import { Meter } from "../../ui/meter";
import { useNow } from "../../ui/use-now";
import { TONES, isOver, partsOf, usageText } from "./rules";

const MINUTE_MS = 60_000;

/** Paths of the views, for members and for operators. */
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

/** The longest time that a GPU of it has been unused. */
export function Unused({ reservation }: { reservation: Reservation }) {
  const now = useNow(15_000);
  const { unused_since, unused_gpus = 0 } = reservation.status ?? {};
  if (!unused_since || unused_gpus === 0) return null;
  const length = now - Date.parse(unused_since);
  return <small className="warn-text">unused for {length < MINUTE_MS ? "less than a minute" : `up to ${span(length)}`}</small>;
}

/** Its GPUs as a bar with text below. */
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
  const [word, time] = isOver(reservation) ? ["ended", metadata?.end_time] : waits ? ["starts", config?.start_time] : ["ends", config?.end_time];
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

/** Who can launch on it, and what it costs. */
export const RULES: Record<Side, string> = {
  project: "Only this project can launch on its reserved GPUs. Launches use reserved GPUs first; released GPUs return to the reservation. Reservations are free, allocations are billed.",
  operator: "Only the project of a reservation can launch on its GPUs. Other projects cannot see the name of that project. Reservations take precedence over queued requests and are not billed.",
};
