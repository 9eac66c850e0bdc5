/** One reservation: its GPUs, the launches that fit on it, its time window, and how to end it. */
import { useState } from "react";
import { Link } from "wouter";
import { type Side, useCancelReservation, useReadReservation, useReservation } from "../../api/capacity";
import { Problem } from "../../api/problem";
import type { Reservation } from "../../api/types";
import { duration } from "../../lib/time";
import { plural } from "../../lib/text";
import { useProjectMay } from "../../session/roles";
import { Button, Card, CopyButton, Facts, Planned, Progress, Skeleton, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Field } from "../../ui/form";
import { CircleOff, Plus } from "../../ui/icons";
import { Meter } from "../../ui/meter";
import { ProblemNote } from "../../ui/problem";
import { ProjectName } from "../../ui/project";
import { Back, Page } from "../../ui/shell";
import { useAsked } from "../../ui/use-asked";
import { useNow } from "../../ui/use-now";
import { HOME, StateBadge, TITLE, Unused, RULES } from "./parts";
import { isOver, isScheduled, mayEnd, partsOf, passedPercent, sizeOf } from "./rules";

export function End({ side, reservation }: { side: Side; reservation: Reservation }) {
  const [reason, setReason] = useState("");
  const read = useReadReservation(side, reservation.id ?? "");
  const cancel = useCancelReservation(side, reservation.id ?? "");
  const { config, status } = reservation;
  // one that starts while the question is open is not ended by a yes to the other question
  const offered = isScheduled(reservation);
  const [scheduled, askAnew] = useAsked(offered);
  const run = async () => {
    const now = await read();
    if (isScheduled(now) !== scheduled) {
      askAnew();
      throw new Problem({ status: 409, message: isOver(now) ? `${config?.name} has ended meanwhile.` : `${config?.name} has started meanwhile. Confirm again to cancel it.` });
    }
    await cancel.mutateAsync(reason.trim());
  };
  return (
    <Confirm
      needs={side === "operator" ? "operate" : undefined}
      danger
      trigger={
        <Button kind="danger">
          <CircleOff size={15} aria-hidden="true" /> Cancel reservation
        </Button>
      }
      title={scheduled ? `Cancel ${config?.name}?` : `Cancel ${config?.name} before its end?`}
      action="Cancel reservation"
      reset={askAnew}
      run={run}
    >
      {scheduled ? (
        <p>The reservation will not start. No GPUs are reserved for it yet.</p>
      ) : (
        <>
          <p>
            Its {plural(status?.reserved_gpus ?? 0, "GPU")} become available to everyone at once, queued requests first.{" "}
            <strong>Running allocations continue</strong> and are billed as before.
          </p>
          <p>This cannot be undone. A new reservation gets only GPUs that are free then.</p>
        </>
      )}
      <Field label="Reason (optional)" hint="Shown with the reservation.">
        {({ id, describedBy }) => <input id={id} aria-describedby={describedBy} value={reason} maxLength={500} autoComplete="off" onChange={(event) => setReason(event.target.value)} />}
      </Field>
    </Confirm>
  );
}

/** The reservation gathers; that is said as work is. */
function Gathering({ reservation }: { reservation: Reservation }) {
  const { state, reserved_gpus = 0 } = reservation.status ?? {};
  if (state !== "gathering") return null;
  const size = sizeOf(reservation);
  return (
    <div className="under-way" role="status">
      <div className="under-way-line">
        <strong>
          {reserved_gpus} of {plural(size, "GPU")} reserved
        </strong>
        <span className="muted">more are added as they become free, before queued requests</span>
      </div>
      <Progress value={size > 0 ? (reserved_gpus / size) * 100 : 0} label="GPUs reserved" />
    </div>
  );
}

function Fits({ side, reservation }: { side: Side; reservation: Reservation }) {
  const launches = reservation.status?.launches ?? [];
  const mayLaunch = useProjectMay("write", undefined, reservation.config?.project_id);
  const { region_code = "", sku = "" } = reservation.config ?? {};
  const fits = launches.some(({ fits: count = 0 }) => count > 0);
  return (
    <Card
      title="Launches that fit now"
      aside={
        side === "project" &&
        mayLaunch &&
        fits && (
          <Link href={`/launch?${new URLSearchParams({ region: region_code, sku })}`} className="button small">
            <Plus size={15} aria-hidden="true" /> Launch on it
          </Link>
        )
      }
    >
      {launches.length > 0 ? (
        <ul className="fit-counts" aria-label="Launches that fit, for each size separately">
          {launches.map(({ gpu_count = 0, fits: count = 0 }) => (
            <li key={gpu_count} className={count > 0 ? "" : "none"}>
              <strong>{count}</strong>
              <span>
                {count === 1 ? "launch" : "launches"} of {plural(gpu_count, "GPU")}
              </span>
            </li>
          ))}
        </ul>
      ) : (
        <p className="muted">{(reservation.status?.unused_gpus ?? 0) > 0 ? "No launch fits on the unused GPUs." : "None: all of its GPUs are in use."}</p>
      )}
      <p className="muted">{RULES[side]}</p>
    </Card>
  );
}

function WindowCard({ reservation }: { reservation: Reservation }) {
  const now = useNow(15_000);
  const { config, metadata } = reservation;
  const policy = config?.release_unused_after_seconds ?? 0;
  return (
    <Card title="Time">
      {!isScheduled(reservation) && !isOver(reservation) && <Progress value={passedPercent(reservation, now)} label="Elapsed time" />}
      <Facts
        rows={[
          ["From", <Planned value={config?.start_time} />],
          ["To", <Planned value={config?.end_time} />],
          isOver(reservation) ? ["Ended", <Time value={metadata?.end_time} />] : ["Ends", <Time value={config?.end_time} />],
          ["Idle release", policy > 0 ? `after ${duration(policy * 1000)} without use, for each GPU` : "never"],
        ]}
      />
    </Card>
  );
}

export default function ReservationView({ side, id }: { side: Side; id: string }) {
  const found = useReservation(side, id);
  const mayWrite = useProjectMay("write", undefined, found.data?.config?.project_id);
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
      name={config?.name ?? "Reservation"}
      title={
        <>
          {config?.name} <StateBadge reservation={reservation} />
        </>
      }
      actions={(side === "operator" || mayWrite) && mayEnd(side, reservation) && <End side={side} reservation={reservation} />}
    >
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      <Gathering reservation={reservation} />
      <div className="columns">
        <div>
          <Card title={`${plural(sizeOf(reservation), "GPU")} of ${config?.sku} in ${config?.region_code}`}>
            {isOver(reservation) ? <p className="muted">This reservation has ended. No GPUs are reserved for it.</p> : <Meter parts={partsOf(reservation)} label="Reserved GPUs" legend />}
            <Unused reservation={reservation} />
            {status?.reason && <p>{status.reason}</p>}
          </Card>
          {!isOver(reservation) && <Fits side={side} reservation={reservation} />}
        </div>
        <div>
          <WindowCard reservation={reservation} />
          <Card title="Details">
            <Facts
              rows={[
                ["Project", <ProjectName id={config?.project_id} />],
                ["Requested", plural(config?.gpu_count ?? 0, "GPU")],
                ...(released > 0 ? ([["Released", plural(released, "GPU")]] as [string, string][]) : []),
                ["Created by", metadata?.made_by_project ? `${metadata.created_by}, project member` : metadata?.created_by],
                ["Created", <Time value={metadata?.create_time} />],
                ["ID", <span className="id-line"><code title={id}>{id}</code><CopyButton text={id} label="Copy id" /></span>],
              ]}
            />
            {!isOver(reservation) && !mayEnd(side, reservation) && <p className="muted">Created by an operator. Only an operator can cancel it.</p>}
          </Card>
        </div>
      </div>
    </Page>
  );
}
