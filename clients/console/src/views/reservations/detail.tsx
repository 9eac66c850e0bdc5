/** One reservation: what it holds, what would fit on it, until when, and its end. */
import { useState } from "react";
import { Link } from "wouter";
import { type Side, useCancelReservation, useReservation } from "../../api/capacity";
import type { Reservation } from "../../api/types";
import { duration } from "../../lib/time";
import { plural } from "../../lib/words";
import { Button, Card, CopyButton, Facts, Planned, Progress, Skeleton, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Field } from "../../ui/form";
import { CircleOff, Plus } from "../../ui/icons";
import { Meter } from "../../ui/meter";
import { ProblemNote } from "../../ui/problem";
import { ProjectName } from "../../ui/project";
import { Back, Page } from "../../ui/shell";
import { useNow } from "../../ui/use-now";
import { HOME, StateBadge, TITLE, Unused, WHO } from "./parts";
import { isOver, mayEnd, partsOf, passedPercent, sizeOf } from "./rules";

function End({ side, reservation }: { side: Side; reservation: Reservation }) {
  const [reason, setReason] = useState("");
  const cancel = useCancelReservation(side, reservation.id ?? "");
  const { config, status } = reservation;
  const waits = status?.state === "scheduled";
  return (
    <Confirm
      danger
      trigger={
        <Button kind="danger">
          <CircleOff size={15} aria-hidden="true" /> {waits ? "Cancel reservation" : "Give back"}
        </Button>
      }
      title={waits ? `Cancel ${config?.name}?` : `Give ${config?.name} back?`}
      action={waits ? "Cancel the reservation" : "Give back"}
      run={() => cancel.mutateAsync(reason.trim())}
    >
      {waits ? (
        <p>Its window will not begin. Nothing is held for it yet.</p>
      ) : (
        <>
          <p>
            What it holds, {plural(status?.reserved_gpus ?? 0, "GPU")}, is open to everybody at once, first to those who wait in line.{" "}
            <strong>What runs goes on</strong> and is billed as before.
          </p>
          <p>This cannot be undone: a new reservation has what is free then.</p>
        </>
      )}
      <Field label="Reason, if there is one" hint="For those who look at it later.">
        {({ id, describedBy }) => <input id={id} aria-describedby={describedBy} value={reason} maxLength={500} autoComplete="off" onChange={(event) => setReason(event.target.value)} />}
      </Field>
    </Confirm>
  );
}

/** What is missing is on its way; that is said as work is. */
function Gathering({ reservation }: { reservation: Reservation }) {
  const { state, reserved_gpus = 0 } = reservation.status ?? {};
  if (state !== "gathering") return null;
  const size = sizeOf(reservation);
  return (
    <div className="under-way" role="status">
      <div className="under-way-line">
        <strong>
          {reserved_gpus} of {plural(size, "GPU")} held
        </strong>
        <span className="muted">the rest as it becomes free, before those who wait in line</span>
      </div>
      <Progress value={size > 0 ? (reserved_gpus / size) * 100 : 0} label="GPUs held" />
    </div>
  );
}

function Room({ side, reservation }: { side: Side; reservation: Reservation }) {
  const rooms = reservation.status?.launches ?? [];
  const { region_code = "", sku = "" } = reservation.config ?? {};
  const fits = rooms.some((room) => (room.fits ?? 0) > 0);
  return (
    <Card
      title="What fits on it now"
      aside={
        side === "project" &&
        fits && (
          <Link href={`/launch?${new URLSearchParams({ region: region_code, sku })}`} className="button small">
            <Plus size={15} aria-hidden="true" /> Launch on it
          </Link>
        )
      }
    >
      {rooms.length > 0 ? (
        <ul className="rooms" aria-label="Launches that fit, each size for itself">
          {rooms.map(({ gpu_count = 0, fits: count = 0 }) => (
            <li key={gpu_count} className={count > 0 ? "" : "none"}>
              <strong>{count}</strong>
              <span>
                {count === 1 ? "launch" : "launches"} of {plural(gpu_count, "GPU")}
              </span>
            </li>
          ))}
        </ul>
      ) : (
        <p className="muted">{(reservation.status?.unused_gpus ?? 0) > 0 ? "No launch fits on what is unused." : "Nothing: no GPU of it is unused."}</p>
      )}
      <p className="muted">{WHO[side]}</p>
    </Card>
  );
}

function WindowCard({ reservation }: { reservation: Reservation }) {
  const now = useNow(15_000);
  const { config, status, metadata } = reservation;
  const policy = config?.release_unused_after_seconds ?? 0;
  return (
    <Card title="Window">
      {status?.state !== "scheduled" && !isOver(reservation) && <Progress value={passedPercent(reservation, now)} label="Share of the window that has passed" />}
      <Facts
        rows={[
          ["From", <Planned value={config?.start_time} />],
          ["To", <Planned value={config?.end_time} />],
          isOver(reservation) ? ["Over", <Time value={metadata?.end_time} />] : ["Ends", <Time value={config?.end_time} />],
          ["Unused", policy > 0 ? `given back after ${duration(policy * 1000)}, each GPU for itself` : "kept as long as the window"],
        ]}
      />
    </Card>
  );
}

export default function ReservationView({ side, id }: { side: Side; id: string }) {
  const found = useReservation(side, id);
  const crumb = <Back to={HOME[side]}>{TITLE[side]}</Back>;
  const reservation = found.data;
  if (!reservation) {
    return (
      <Page title="Reservation" crumb={crumb}>
        {found.error ? <ProblemNote error={found.error} retry={() => found.refetch()} /> : <Skeleton lines={6} label="Loading the reservation" />}
      </Page>
    );
  }
  const { config, status, metadata } = reservation;
  const released = status?.released_gpus ?? 0;
  return (
    <Page
      crumb={crumb}
      title={
        <>
          {config?.name} <StateBadge reservation={reservation} />
        </>
      }
      actions={mayEnd(side, reservation) && <End side={side} reservation={reservation} />}
    >
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      <Gathering reservation={reservation} />
      <div className="columns">
        <div>
          <Card title={`${plural(sizeOf(reservation), "GPU")} of ${config?.sku} in ${config?.region_code}`}>
            {isOver(reservation) ? <p className="muted">It is over: nothing is held any more.</p> : <Meter parts={partsOf(reservation)} label="Reserved GPUs" legend />}
            <Unused reservation={reservation} />
            {status?.reason && <p>{status.reason}</p>}
          </Card>
          {!isOver(reservation) && <Room side={side} reservation={reservation} />}
        </div>
        <div>
          <WindowCard reservation={reservation} />
          <Card title="Details">
            <Facts
              rows={[
                ["Project", <ProjectName id={config?.project_id} />],
                ["Asked for", plural(config?.gpu_count ?? 0, "GPU")],
                ...(released > 0 ? ([["Given back", plural(released, "GPU")]] as [string, string][]) : []),
                ["Made by", metadata?.made_by_project ? `${metadata.created_by}, for the project` : `${metadata?.created_by}, an operator`],
                ["Made", <Time value={metadata?.create_time} />],
                ["Id", <span className="id-line"><code title={id}>{id}</code><CopyButton text={id} label="Copy id" /></span>],
              ]}
            />
            {!isOver(reservation) && !mayEnd(side, reservation) && <p className="muted">An operator made it, so an operator ends it.</p>}
          </Card>
        </div>
      </div>
    </Page>
  );
}
