/** The terminals of all projects, for operators: who opened which, for how long, and why it ended. */
import { useDeferredValue, useState } from "react";
import { Link } from "wouter";
import { useProjects } from "../../api/queries";
import { useAllocationNames, useEndTerminal, useTerminalSessions } from "../../api/tenants";
import type { TerminalSession } from "../../api/types";
import { between } from "../../lib/time";
import { plural, sentence, shortId } from "../../lib/text";
import { Badge, Button, Empty, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { SearchBox, Select } from "../../ui/form";
import { Search, SquareTerminal } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { Cut } from "../../ui/no-match";
import { ProjectName } from "../../ui/project";
import { Page } from "../../ui/shell";
import { ShowMore } from "../../ui/show-more";
import { type Column, TableCard } from "../../ui/table";
import { TextFilter } from "../../ui/text-filter";
import { useQueryReset, useQueryState } from "../../ui/use-query-state";
import { ReasonField } from "../project/parts";
import { type StateWord, kindWord, terminalsFilter } from "./terminal-rules";
import "../../styles/audit.css";

const COLUMNS: Column[] = ["Who", "Allocation", ["Project", "optional"], "State", ["Opened", "number"], ["Duration", "number optional"], ["Output recorded", "optional"], ["Actions", "number"]];
const STATES: { value: StateWord; label: string }[] = [
  { value: "", label: "All" },
  { value: "open", label: "Open" },
  { value: "closed", label: "Closed" },
];

/** Ends a terminal of anybody; its user and the members of the project read the reason. */
export function EndTerminal({ session }: { session: TerminalSession }) {
  const end = useEndTerminal();
  const [reason, setReason] = useState("");
  const { id = "", principal = "" } = session;
  return (
    <Confirm
      needs="operate"
      danger
      trigger={
        <Button small aria-label={`End the terminal of ${principal}`}>
          End
        </Button>
      }
      title={`End the terminal of ${principal}?`}
      action="End"
      ready={reason.trim() !== ""}
      run={() => end.mutateAsync({ id, reason: reason.trim() })}
    >
      <p>The terminal and the programs in it end within seconds. Its user can open another one.</p>
      <ReasonField value={reason} onChange={setReason} />
    </Confirm>
  );
}

function Row({ session, name }: { session: TerminalSession; /** Of its allocation, once it is known. */ name: string | undefined }) {
  const { allocation_id = "", project_id, principal, open_time = "", close_time, close_reason = "", end_request_time, end_reason, recorded } = session;
  return (
    <tr>
      <td>
        <strong>{principal}</strong>
        <small className="muted block">{kindWord(session)}</small>
      </td>
      <td className="tight">
        <Link href={`/admin/allocations/${allocation_id}`} title={allocation_id}>
          {name ?? shortId(allocation_id)}
        </Link>
      </td>
      <td className="optional">
        <Link href={`/admin/projects/${project_id}`}>
          <ProjectName id={project_id} />
        </Link>
      </td>
      <td>
        {close_time ? (
          <>
            <Badge tone="idle">Closed</Badge> <small className="muted">{sentence(close_reason)}</small>
          </>
        ) : (
          <Badge tone="good">{end_request_time ? "Ending" : "Open"}</Badge>
        )}
        {end_reason && <small className="muted block">{end_reason}</small>}
      </td>
      <td className="number">
        <Time value={open_time} />
      </td>
      <td className="number optional">{close_time && open_time ? between(open_time, close_time, 0) : <span className="muted">–</span>}</td>
      <td className="optional">{recorded ? "Yes" : "No"}</td>
      <td className="number">{!close_time && !end_request_time ? <EndTerminal session={session} /> : <span className="muted">–</span>}</td>
    </tr>
  );
}

export default function Terminals() {
  const [allocation, setAllocation] = useQueryState("allocation");
  const [search, setSearch] = useQueryState("search");
  const [wanted, setState] = useQueryState("state");
  const state = STATES.find(({ value }) => value === wanted)?.value ?? "";
  const clear = useQueryReset(["allocation", "search", "state"]);
  const projects = useProjects();
  const asked = useDeferredValue(search);
  const { filter, cut } = terminalsFilter(asked, state, projects);
  const found = useTerminalSessions(allocation, filter);
  const names = useAllocationNames(found.data?.map(({ allocation_id = "" }) => allocation_id) ?? []);
  // what was found may be of an older search than the one that is typed
  const filtered = allocation !== "" || search !== "" || asked !== "" || state !== "";
  return (
    <Page title="Terminals">
      <p className="intro muted">Terminals and SSH tunnels through the platform, the newest first. To lock somebody out, disable the person or the API key: their terminals end.</p>
      <div className="filters audit-filters" role="search" aria-label="Terminals">
        <SearchBox label="Search by person, project, kind of end or whole id" placeholder="Person, project or whole id" value={search} onChange={setSearch} />
        <TextFilter label="Allocation id" placeholder="Whole id" value={allocation} onChange={setAllocation} />
        <Select label="State" value={state} onChoose={setState} options={STATES} />
      </div>
      <Cut text={cut} />
      <Loaded of={[found]} lines={6} label="Loading terminals">
        {(sessions) => {
          if (sessions.length > 0) {
            return (
              <TableCard
                label="Terminals"
                columns={COLUMNS}
                foot={
                  <>
                    {!found.more && (
                      <span className="muted" role="status">
                        {plural(sessions.length, "terminal")}
                      </span>
                    )}
                    <ShowMore of={found} noun="terminal" />
                  </>
                }
              >
                {sessions.map((session) => (
                  <Row key={session.id} session={session} name={names.get(session.allocation_id ?? "")} />
                ))}
              </TableCard>
            );
          }
          if (!filtered) {
            return (
              <Empty icon={<SquareTerminal size={28} />} title="No terminals yet">
                Nobody has opened a terminal through the platform.
              </Empty>
            );
          }
          return (
            <Empty icon={<Search size={28} />} title="No terminal matches" action={<Button onClick={clear}>Clear the filters</Button>}>
              Search for a part of a person’s or project’s name or of why it ended, or for the whole id of an allocation or project.
            </Empty>
          );
        }}
      </Loaded>
    </Page>
  );
}
