/** Organisations and their projects, for operators. */
import { useState } from "react";
import { Link } from "wouter";
import { type Organisation, type TenantProject, useCreateOrganisation, useOrganisations, useTenantProjects } from "../../api/tenancy";
import { plural } from "../../lib/text";
import { Button, Card, Empty } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { SearchBox } from "../../ui/form";
import { LayoutList, Plus, Search } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { Page } from "../../ui/shell";
import { useQueryState } from "../../ui/use-query-state";
import { TextField, isSlug, slugProblem } from "../catalog/parts";
import { TenantBadge } from "../project/parts";
import { OrganisationActions, ProjectsTable } from "./parts";

function NewOrganisation({ small = false }: { small?: boolean }) {
  const create = useCreateOrganisation();
  const [slug, setSlug] = useState("");
  const [name, setName] = useState("");
  const [owner, setOwner] = useState("");
  const run = async () => {
    await create.mutateAsync({ slug, display_name: name.trim(), owner: owner.trim() });
    setSlug("");
    setName("");
  };
  return (
    <Confirm
      needs="manage"
      trigger={
        <Button kind="primary" small={small}>
          <Plus size={16} aria-hidden="true" /> Add an organisation
        </Button>
      }
      title="Add an organisation"
      action="Add"
      ready={isSlug(slug)}
      run={run}
    >
      <TextField label="Slug" mono value={slug} onChange={setSlug} problem={slugProblem(slug)} hint="It cannot be changed later." />
      <TextField label="Display name" value={name} onChange={setName} />
      <TextField label="Owner (optional)" mono value={owner} onChange={setOwner} placeholder="user:alice" hint="A registered person. Without an owner, nobody can invite members." />
    </Confirm>
  );
}

function Tenant({ organisation, projects }: { organisation: Organisation; projects: TenantProject[] }) {
  const { id, slug, display_name, state } = organisation;
  return (
    <Card
      title={
        <>
          <Link href={`/admin/organisations/${id}`}>{display_name || slug}</Link> <TenantBadge state={state} />
        </>
      }
      aside={<OrganisationActions organisation={organisation} small />}
    >
      <ProjectsTable organisation={organisation} projects={projects} />
    </Card>
  );
}

/** Organisations that are shown at first, and that each "Show more" adds: each is a card with dialogs. */
const PAGE = 40;

/** Each organisation with its projects, where a part of a name or id of either is searched for. */
export function found(organisations: Organisation[], projects: TenantProject[], search: string): { organisation: Organisation; own: TenantProject[] }[] {
  const bySlug = new Map<string | undefined, TenantProject[]>();
  for (const project of projects) {
    const those = bySlug.get(project.organisation);
    if (those) those.push(project);
    else bySlug.set(project.organisation, [project]);
  }
  const wanted = search.trim().toLowerCase();
  const has = (one: { slug?: string; display_name?: string; id?: string }) => [one.slug, one.display_name, one.id].some((text = "") => text.toLowerCase().includes(wanted));
  const all = organisations.map((organisation) => ({ organisation, own: bySlug.get(organisation.slug) ?? [] }));
  return wanted === "" ? all : all.filter(({ organisation, own }) => has(organisation) || own.some(has));
}

export default function Tenants() {
  const [search, setSearch] = useQueryState("search");
  const [most, setMost] = useState(PAGE);
  return (
    <Page title="Organisations" actions={<NewOrganisation />}>
      <Loaded of={[useOrganisations(), useTenantProjects()]} lines={6} label="Loading organisations">
        {(organisations, projects) => {
          const shown = found(organisations, projects, search);
          if (organisations.length === 0) {
            return (
              <Empty icon={<LayoutList size={28} />} title="No organisation yet" action={<NewOrganisation />}>
                An organisation has projects, and projects have members. Add one, then invite its owner.
              </Empty>
            );
          }
          return (
            <>
              <div className="filters" role="search" aria-label="Organisations">
                <SearchBox label="Search by organisation or project" placeholder="Organisation or project" value={search} onChange={setSearch} />
              </div>
              <p className="muted" role="status">
                {shown.length < organisations.length && `${shown.length} of `}
                {plural(organisations.length, "organisation")}, {plural(projects.length, "project")}
              </p>
              {shown.length === 0 && (
                <Empty icon={<Search size={28} />} title="Nothing matches" action={<Button onClick={() => setSearch("")}>Clear the search</Button>}>
                  Search for a part of a name or id.
                </Empty>
              )}
              {shown.slice(0, most).map(({ organisation, own }) => (
                <Tenant key={organisation.id} organisation={organisation} projects={own} />
              ))}
              {shown.length > most && (
                <p className="more">
                  <Button onClick={() => setMost(most + PAGE)}>Show {Math.min(PAGE, shown.length - most)} more</Button>
                </p>
              )}
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}
