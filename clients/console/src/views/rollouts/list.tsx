/** Rollouts of the node agent, and the form that starts one. */
import { useDeferredValue, useState } from "react";
import { useLocation } from "wouter";
import { useCreateRollout, useRollouts } from "../../api/rollouts";
import { plural, sentence } from "../../lib/text";
import { Button, Empty, Skeleton, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { SearchBox, Select } from "../../ui/form";
import { Plus, Server } from "../../ui/icons";
import { Cut, NoMatch, ShowMore } from "../../ui/no-match";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { type Column, LinkRow, TableCard } from "../../ui/table";
import { useAttempt } from "../../ui/use-attempt";
import { useQueryReset, useQueryState } from "../../ui/use-query-state";
import { TextField } from "../catalog/parts";
import { StateBadge, targetOf } from "./parts";
import { STATES, filterOf } from "./search";

const COLUMNS: Column[] = ["Version", "State", "Updated", ["Failed", "number"], ["Started", "optional"], ["Actor", "optional"]];
const DIGEST = /^sha256:[0-9a-f]{64}$/;
const NUMBER = /^[0-9]{1,9}$/;

export function Begin() {
  const create = useCreateRollout();
  const [, go] = useLocation();
  const [version, setVersion] = useState("");
  const [digest, setDigest] = useState("");
  const [size, setSize] = useState("");
  const [failures, setFailures] = useState("0");
  const [reason, setReason] = useState("");
  const isDigest = DIGEST.test(digest);
  const ready = version !== "" && isDigest && NUMBER.test(size) && NUMBER.test(failures);
  const wanted = { version, digest, size_bytes: size, max_failures: Number(failures), reason: reason.trim() };
  const attempt = useAttempt(JSON.stringify(wanted), () => wanted);
  const run = async () => {
    const rollout = await create.mutateAsync(attempt());
    go(`/admin/agent-rollouts/${rollout.id}`);
  };
  return (
    <Confirm
      needs="operate"
      title="Start a rollout"
      action="Start"
      ready={ready}
      run={run}
      trigger={
        <Button kind="primary">
          <Plus size={16} aria-hidden="true" /> Start a rollout
        </Button>
      }
    >
      <p>The first wave is one node, the second the rest of its rack, the third all others. VMs run on.</p>
      <TextField label="Version" mono value={version} onChange={setVersion} hint="As printed by gpuaas-node-agent --version." />
      <TextField label="Digest of the package" mono value={digest} onChange={setDigest} problem={digest === "" || isDigest ? undefined : "sha256: and 64 lowercase hex digits."} />
      <TextField label="Size of the package in bytes" numeric value={size} onChange={setSize} />
      <TextField label="Maximum failed nodes" numeric value={failures} onChange={setFailures} hint="The rollout pauses when more nodes than this fail. 0: at the first failure." />
      <TextField label="Reason" value={reason} onChange={setReason} />
    </Confirm>
  );
}

export default function RolloutList() {
  const [search, setSearch] = useQueryState("search");
  const [state, setState] = useQueryState("state");
  const clear = useQueryReset(["search", "state"]);
  const { filter, cut } = filterOf({ search: useDeferredValue(search), state });
  const found = useRollouts(filter);
  const rollouts = found.data?.pages.flatMap((page) => page.rollouts ?? []);
  // what was found may be of an older search than the one that is typed
  const none = rollouts?.length === 0 && filter === "" && search.trim() === "" && state === "";
  return (
    <Page title="Agent rollouts" actions={<Begin />}>
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      {!rollouts && !found.error && <Skeleton lines={4} label="Loading rollouts" />}
      {none && (
        <Empty icon={<Server size={28} />} title="No rollout yet">
          A rollout brings the agents of all nodes to a version, wave by wave, and stops when nodes fail.
        </Empty>
      )}
      {!none && (
        <>
          <div className="filters" role="search" aria-label="Agent rollouts">
            <SearchBox label="Search by version, actor or reason" placeholder="Version, actor or reason" value={search} onChange={setSearch} />
            <Select label="State" value={state} onChoose={setState} options={[{ value: "", label: "All" }, ...STATES.map((value) => ({ value, label: sentence(value) }))]} />
          </div>
          <Cut text={cut} />
          {rollouts?.length === 0 && (
            <NoMatch title="No rollout matches" clear={clear}>
              Change the search or the state to see other rollouts.
            </NoMatch>
          )}
          {rollouts && rollouts.length > 0 && (
            <TableCard
              label="Agent rollouts"
              columns={COLUMNS}
              rowsAct
              foot={
                <>
                  <span className="muted" role="status">
                    {plural(rollouts.length, "rollout")}
                    {found.hasNextPage ? ", and more" : ""}
                  </span>
                  <ShowMore of={found} />
                </>
              }
            >
              {rollouts.map((rollout) => (
                <LinkRow key={rollout.id} to={`/admin/agent-rollouts/${rollout.id}`} name={targetOf(rollout)}>
                  <td>
                    <StateBadge state={rollout.state} />
                  </td>
                  <td>
                    {rollout.succeeded_nodes ?? 0} of {rollout.total_nodes ?? 0}
                  </td>
                  <td className="number">{rollout.failed_nodes ?? 0}</td>
                  <td className="optional tight">
                    <Time value={rollout.create_time} />
                  </td>
                  <td className="optional tight">{rollout.principal}</td>
                </LinkRow>
              ))}
            </TableCard>
          )}
        </>
      )}
    </Page>
  );
}
