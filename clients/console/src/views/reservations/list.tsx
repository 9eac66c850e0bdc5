/** What is reserved: for the project that is looked at, or for all of them. */
import { useState } from "react";
import { Link } from "wouter";
import { type Side, useReservations } from "../../api/capacity";
import type { Reservation } from "../../api/types";
import { zone } from "../../lib/time";
import { plural } from "../../lib/words";
import { Button, Card, Empty, Skeleton } from "../../ui/basics";
import { CalendarClock, Plus } from "../../ui/icons";
import { Meter } from "../../ui/meter";
import { ProblemNote } from "../../ui/problem";
import { ProjectName } from "../../ui/project";
import { Page } from "../../ui/shell";
import { type Column, LinkRow, TableCard } from "../../ui/table";
import { LimitButton } from "./limit";
import { Gpus, HOME, StateBadge, TITLE, WHO, Window } from "./parts";
import { totalsOf } from "./rules";

function columnsOf(side: Side): Column[] {
  const project: Column[] = side === "operator" ? [["Project", "optional"]] : [];
  return ["Name", "GPUs", "State", ...project, ["Product", "optional"], ["Window", "optional"]];
}

function Row({ side, reservation }: { side: Side; reservation: Reservation }) {
  const { config, id } = reservation;
  return (
    <LinkRow to={`${HOME[side]}/${id}`} name={config?.name}>
      <td className="meter-cell">
        <Gpus reservation={reservation} />
      </td>
      <td>
        <StateBadge reservation={reservation} />
      </td>
      {side === "operator" && (
        <td className="optional">
          <ProjectName id={config?.project_id} />
        </td>
      )}
      <td className="optional tight">
        {config?.sku}
        <br />
        <small className="muted">{config?.region_code}</small>
      </td>
      <td className="optional">
        <Window reservation={reservation} />
      </td>
    </LinkRow>
  );
}

function NewButton({ side, children }: { side: Side; children: string }) {
  return (
    <Link href={`${HOME[side]}/new`} className="button primary">
      <Plus size={16} aria-hidden="true" /> {children}
    </Link>
  );
}

const EMPTY: Record<Side, string> = {
  project: "A reservation keeps GPUs free for this project, so that a launch has room when you need it. Reserve them for a window; within it only members of the project launch on them.",
  operator: "A reservation keeps GPUs of a SKU for one project, for a window. Only members of that project launch on them; what stays unused is seen here.",
};

export default function ReservationList({ side }: { side: Side }) {
  const [over, setOver] = useState(false);
  const [idle, setIdle] = useState(false);
  const [told, setTold] = useState("");
  const found = useReservations(side, over);
  const all = found.data?.pages.flatMap((page) => page.reservations ?? []) ?? [];
  const rows = idle ? all.filter(({ status }) => (status?.unused_gpus ?? 0) > 0) : all;
  const more = found.hasNextPage;
  return (
    <Page
      title={TITLE[side]}
      actions={
        <>
          {all.length > 0 && (
            <label className="switch">
              <input type="checkbox" role="switch" checked={idle} onChange={(event) => setIdle(event.target.checked)} />
              <span>Only with unused GPUs</span>
            </label>
          )}
          <label className="switch">
            <input type="checkbox" role="switch" checked={over} onChange={(event) => setOver(event.target.checked)} />
            <span>Show ended</span>
          </label>
          {side === "operator" && <LimitButton told={setTold} />}
          <NewButton side={side}>Reserve</NewButton>
        </>
      }
    >
      <p className="told" role="status">
        {told}
      </p>
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      {found.isPending && <Skeleton lines={5} label="Loading reservations" />}
      {found.data && all.length === 0 && (
        <Empty icon={<CalendarClock size={28} />} title={over ? "Nothing has ever been reserved" : "Nothing is reserved now"} action={<NewButton side={side}>Reserve GPUs</NewButton>}>
          {EMPTY[side]}
        </Empty>
      )}
      {all.length > 0 && (
        <>
          <Card title={side === "operator" ? "GPUs reserved now, of all projects" : "GPUs reserved now"}>
            <Meter parts={totalsOf(all)} label="GPUs reserved now" legend />
            <p className="muted">{WHO[side]}</p>
          </Card>
          <TableCard
            label={TITLE[side]}
            columns={columnsOf(side)}
            rowsAct
            foot={
              <>
                <span className="muted" role="status">
                  {plural(rows.length, "reservation")}
                  {more ? ", and more" : ""}. Times in {zone}.
                </span>
                {more && (
                  <Button small busy={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
                    Show more
                  </Button>
                )}
              </>
            }
          >
            {rows.map((reservation) => (
              <Row key={reservation.id} side={side} reservation={reservation} />
            ))}
            {rows.length === 0 && (
              <tr>
                <td colSpan={6}>No GPU that is reserved is unused.</td>
              </tr>
            )}
          </TableCard>
        </>
      )}
    </Page>
  );
}
