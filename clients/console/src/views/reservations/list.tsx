/** The reservations of the current project, or of all projects. */
import { useDeferredValue, useState } from "react";
import { Link } from "wouter";
import { type Side, useReservations, useRunningReservations } from "../../api/capacity";
import type { Reservation } from "../../api/types";
import { useProjects, useQuotas } from "../../api/queries";
import { plural, raise, sentence } from "../../lib/text";
import { useMay } from "../../session/rights";
import { useProjectMay } from "../../session/roles";
import { Card, Empty, Skeleton } from "../../ui/basics";
import { SearchBox, Select } from "../../ui/form";
import { CalendarClock, Plus } from "../../ui/icons";
import { Meter } from "../../ui/meter";
import { Cut, NoMatch, ShowMore } from "../../ui/no-match";
import { ProblemNote } from "../../ui/problem";
import { ProjectName } from "../../ui/project";
import { Page } from "../../ui/shell";
import { type Column, LinkRow, TableCard } from "../../ui/table";
import { useQueryReset, useQueryState, useQuerySwitch } from "../../ui/use-query-state";
import { LimitButton } from "./limit";
import { Gpus, HOME, StateBadge, TITLE, RULES, Window } from "./parts";
import { STATES, filterOf, totalsOf } from "./rules";

function columnsOf(side: Side): Column[] {
  const project: Column[] = side === "operator" ? [["Project", "optional"]] : [];
  return ["Name", "GPUs", "State", ...project, ["SKU", "optional"], ["Time", "optional"]];
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
  project: "A reservation guarantees GPUs to this project for a time window. Only members of the project can launch on them.",
  operator: "A reservation guarantees GPUs of a SKU to one project for a time window. This page shows which of them are unused.",
};

export default function ReservationList({ side }: { side: Side }) {
  const [over, setOver] = useQuerySwitch("ended");
  const [idle, setIdle] = useQuerySwitch("unused");
  const [notice, setNotice] = useState("");
  const projects = useProjects();
  const [search, setSearch] = useQueryState("search");
  const [state, setState] = useQueryState("state");
  const clear = useQueryReset(["search", "state", "unused"]);
  const { filter, cut } = filterOf({ search: useDeferredValue(search), state, idle }, projects);
  const whole = useReservations(side, over);
  const found = useReservations(side, over, filter);
  // the lists have one page first, and with ended ones others drop out of it
  const running = useRunningReservations(side);
  const failed = found.error ?? whole.error ?? running.error;
  // a project whose limit is 0 is offered nothing that would be refused
  const quotas = useQuotas(side === "project").data;
  // of operators it is known from other pages, of one project
  const limit = side === "project" ? quotas?.max_reserved_gpus : undefined;
  const mayOperate = useMay("operate");
  const manages = useMay("manage");
  const mayWrite = useProjectMay("write");
  const mayReserve = side === "operator" ? mayOperate : mayWrite && (limit ?? 0) > 0;
  const all = whole.data?.pages.flatMap((page) => page.reservations ?? []) ?? [];
  const rows = found.data?.pages.flatMap((page) => page.reservations ?? []) ?? [];
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
          {side === "operator" && <LimitButton notify={setNotice} />}
          {mayReserve && <NewButton side={side}>Reserve</NewButton>}
        </>
      }
    >
      <p className="announcement" role="status">
        {notice}
      </p>
      {failed && <ProblemNote error={failed} retry={() => [found, whole, running].filter(({ error }) => error).forEach(({ refetch }) => void refetch())} />}
      {(whole.isPending || found.isPending) && <Skeleton lines={5} label="Loading reservations" />}
      {whole.data && all.length === 0 && (
        <Empty icon={<CalendarClock size={28} />} title={over ? "No reservations yet" : "No active reservations"} action={mayReserve && <NewButton side={side}>Reserve GPUs</NewButton>}>
          {EMPTY[side]}
          {limit === 0 && ` The reservation limit of this project is 0: ${raise("the reservation limit", manages)}, or ${manages ? "reserve GPUs for the project there" : "to reserve GPUs for the project"}.`}
        </Empty>
      )}
      {all.length > 0 && (
        <>
          <Card title={side === "operator" ? "Reserved GPUs of all projects" : "Reserved GPUs"}>
            {running.data ? <Meter parts={totalsOf(running.data)} label="Reserved GPUs" legend /> : !running.error && <Skeleton lines={1} label="Adding up the reserved GPUs" />}
            <p className="muted">{RULES[side]}</p>
          </Card>
          <div className="filters" role="search" aria-label="Reservations">
            <SearchBox label="Search by name, project, SKU or region" placeholder={side === "operator" ? "Name, project, SKU or region" : "Name, SKU or region"} value={search} onChange={setSearch} />
            <Select label="State" value={state} onChoose={setState} options={[{ value: "", label: "All" }, ...STATES.map((value) => ({ value, label: sentence(value) }))]} />
          </div>
          <Cut text={cut} />
          {found.data && rows.length === 0 && (
            <NoMatch title={idle ? "No reservation with unused GPUs matches" : "No reservation matches"} clear={clear}>
              Change the search or the state, or show all that are listed.
            </NoMatch>
          )}
          {rows.length > 0 && (
            <TableCard
              label={TITLE[side]}
              columns={columnsOf(side)}
              rowsAct
              foot={
                <>
                  <span className="muted" role="status">
                    {plural(rows.length, "reservation")}
                    {found.hasNextPage ? ", and more" : ""}
                  </span>
                  <ShowMore of={found} />
                </>
              }
            >
              {rows.map((reservation) => (
                <Row key={reservation.id} side={side} reservation={reservation} />
              ))}
            </TableCard>
          )}
        </>
      )}
    </Page>
  );
}
