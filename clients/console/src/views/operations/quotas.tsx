/** The quotas of all projects and their use, for operators. */
import { useState } from "react";
import { usePutQuota, useProjectQuotas } from "../../api/catalog";
import { useProjects, useSkus } from "../../api/queries";
import type { ProjectQuotas as Quotas } from "../../api/types";
import { projectNames } from "../../lib/project-name";
import { plural } from "../../lib/text";
import { Button, Empty, Skeleton } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { SearchBox } from "../../ui/form";
import { KeyRound, Search } from "../../ui/icons";
import { Meter } from "../../ui/meter";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { TableCard } from "../../ui/table";
import { useEtag } from "../../ui/use-etag";
import { useQueryState } from "../../ui/use-query-state";
import { SelectField, TextField, countOf } from "../catalog/parts";
import { ALLOCATIONS, nowText, partsOf, quotasOf } from "../usage/quotas";

/** Projects that are shown at first, and that each "Show more" adds; each is a request. */
const PAGE = 20;

export function SetQuota({ id, name, quotas }: { id: string; name: string; quotas: Quotas }) {
  const put = usePutQuota();
  const skus = useSkus().data ?? [];
  const [sku, setSku] = useState(ALLOCATIONS);
  const [max, setMax] = useState("");
  const count = countOf(max, 0);
  const [etag, renew] = useEtag(id, quotas.etag, max !== "");
  const run = async () => {
    if (count !== undefined) await put.mutateAsync({ project_id: id, sku, max: count, etag });
  };
  return (
    <Confirm
      needs="manage"
      trigger={
        <Button small aria-label={`Set quota of ${name}`}>
          Set quota
        </Button>
      }
      title={`Set a quota of ${name}`}
      action="Set quota"
      ready={count !== undefined}
      // after a reload what was typed stays, beside what is set now
      reset={(reloaded) => (reloaded ? renew() : setMax(""))}
      run={run}
    >
      <p>Lowering a quota stops no running allocation.</p>
      <SelectField label="Resource" value={sku} onChange={setSku} options={[[ALLOCATIONS, "Allocations, over all SKUs"], ...skus.map(({ code, display_name }): [string, string] => [code, `GPUs of ${display_name || code}`])]} />
      <TextField label="Limit" numeric value={max} onChange={setMax} problem={max !== "" && count === undefined ? "Enter a whole number, 0 or more." : undefined} hint={`${nowText(quotas, sku)} 0 allows none.`} />
    </Confirm>
  );
}

export default function ProjectQuotas() {
  const projects = useProjects().filter(({ isClosed }) => !isClosed);
  const [search, setSearch] = useQueryState("search");
  const [most, setMost] = useState(PAGE);
  const names = projectNames(projects);
  const matching = projects.filter(({ id, slug, organisation = "" }) => `${organisation}/${slug} ${id}`.toLowerCase().includes(search.trim().toLowerCase()));
  const shown = matching.slice(0, most);
  const found = useProjectQuotas(shown.map(({ id }) => id));
  const failed = found.find(({ error }) => error);
  if (projects.length === 0) {
    return (
      <Page title="Quotas">
        <Empty icon={<KeyRound size={28} />} title="No project yet">
          Quotas limit how many GPUs and allocations a project has. Create a project first.
        </Empty>
      </Page>
    );
  }
  return (
    <Page title="Quotas">
      <div className="filters" role="search" aria-label="Projects">
        <SearchBox label="Search by project" placeholder="Project" value={search} onChange={setSearch} />
      </div>
      {failed?.error && <ProblemNote error={failed.error} retry={() => void failed.refetch()} />}
      {shown.length > 0 && found.every(({ data }) => !data) && !failed && <Skeleton lines={6} label="Loading quotas" />}
      {shown.length === 0 && (
        <Empty icon={<Search size={28} />} title="No project matches" action={<Button onClick={() => setSearch("")}>Clear the search</Button>}>
          Search for a part of its name or id.
        </Empty>
      )}
      {found.some(({ data }) => data) && (
        <TableCard
          label="Quotas of projects"
          columns={["Project", "Resource", ["Used", "number"], ["Limit", "number"], ["Utilization", "optional"], ["Actions", "number"]]}
          foot={
            <>
              <span className="muted" role="status">
                {plural(matching.length, "project")}. Every other SKU has the default limit.
              </span>
              {matching.length > most && (
                <Button small onClick={() => setMost(most + PAGE)}>
                  Show more
                </Button>
              )}
            </>
          }
        >
          {shown.flatMap(({ id, slug }, index) => {
            const name = names.get(id) ?? slug;
            return (found[index]?.data ? quotasOf(found[index].data) : []).map((quota, row) => (
              <tr key={`${id} ${quota.name}`}>
                <td className="tight">{name}</td>
                <td>{quota.name}</td>
                <td className="number">{quota.used}</td>
                <td className="number">{quota.limit}</td>
                <td className="optional">
                  <Meter parts={partsOf(quota)} label={`${quota.name} of ${name}`} />
                </td>
                <td className="number">{row === 0 && found[index]?.data ? <SetQuota id={id} name={name} quotas={found[index].data} /> : ""}</td>
              </tr>
            ));
          })}
        </TableCard>
      )}
    </Page>
  );
}
