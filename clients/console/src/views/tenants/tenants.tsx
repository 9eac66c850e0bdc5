/** Organisations and their projects, for operators. */
import { type ReactNode, useState } from "react";
import { type Organisation, type StateVerb, type TenantProject, useCreateOrganisation, useCreateProject, useOrganisationState, useOrganisations, useTenantProjects } from "../../api/tenancy";
import { plural } from "../../lib/text";
import { Button, Card, Empty } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { SearchBox } from "../../ui/form";
import { LayoutList, Plus, Search } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { Page } from "../../ui/shell";
import { Table } from "../../ui/table";
import { useQueryState } from "../../ui/use-query-state";
import { TextField, isSlug, slugProblem } from "../catalog/parts";
import { SetScim } from "../organisation/scim";
import { ReasonField, TenantBadge } from "../project/parts";

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
      <TextField label="Owner (optional)" mono value={owner} onChange={setOwner} placeholder="user:alice" hint="Somebody who is registered. Without one, nobody can invite members yet." />
    </Confirm>
  );
}

function NewProject({ organisation }: { organisation: Organisation }) {
  const create = useCreateProject();
  const [slug, setSlug] = useState("");
  const [name, setName] = useState("");
  const run = async () => {
    await create.mutateAsync({ organisation_id: organisation.id ?? "", slug, display_name: name.trim() });
    setSlug("");
    setName("");
  };
  return (
    <Confirm needs="manage" trigger={<Button small aria-label={`Add a project to ${organisation.slug}`}>Add a project</Button>} title={`Add a project to ${organisation.slug}`} action="Add" ready={isSlug(slug)} run={run}>
      <TextField label="Slug" mono value={slug} onChange={setSlug} problem={slugProblem(slug)} />
      <TextField label="Display name" value={name} onChange={setName} />
    </Confirm>
  );
}

function Change({ organisation, verb, word, children }: { organisation: Organisation; verb: StateVerb; word: string; children: ReactNode }) {
  const change = useOrganisationState();
  const [reason, setReason] = useState("");
  return (
    <Confirm
      needs="manage"
      danger={verb === "close"}
      trigger={
        <Button small aria-label={`${word} ${organisation.slug}`}>
          {word}
        </Button>
      }
      title={`${word} ${organisation.slug}?`}
      action={word}
      ready={verb !== "suspend" || reason.trim() !== ""}
      run={() => change.mutateAsync({ ...organisation, verb, reason: reason.trim() })}
    >
      <p>{children}</p>
      {verb !== "resume" && <ReasonField optional={verb === "close"} value={reason} onChange={setReason} />}
    </Confirm>
  );
}

function Tenant({ organisation, projects }: { organisation: Organisation; projects: TenantProject[] }) {
  const { slug, display_name, state } = organisation;
  return (
    <Card
      title={
        <>
          {display_name || slug} <TenantBadge state={state} />
        </>
      }
      aside={
        <span className="page-actions">
          {state === "active" && <NewProject organisation={organisation} />}
          {state !== "closed" && <SetScim organisation={organisation.id ?? ""} name={slug} />}
          {state === "active" && (
            <Change organisation={organisation} verb="suspend" word="Suspend">
              Nothing can be launched or started in its projects. What runs continues and is billed.
            </Change>
          )}
          {state === "suspended" && (
            <Change organisation={organisation} verb="resume" word="Resume">
              Its projects can launch again.
            </Change>
          )}
          {state !== "closed" && (
            <Change organisation={organisation} verb="close" word="Close">
              This is permanent, and only possible once all of its projects are closed.
            </Change>
          )}
        </span>
      }
    >
      {projects.length === 0 ? (
        <p className="muted">No project yet.</p>
      ) : (
        <Table label={`Projects of ${slug}`} columns={["Project", ["ID", "optional"], ["State", "number"]]}>
          {projects.map((project) => (
            <tr key={project.id}>
              <td>
                <strong>{project.display_name || project.slug}</strong> <code>{project.slug}</code>
              </td>
              <td className="optional">
                <code>{project.id}</code>
              </td>
              <td className="number">
                <TenantBadge state={project.state} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

export default function Tenants() {
  const [search, setSearch] = useQueryState("search");
  return (
    <Page title="Organisations" actions={<NewOrganisation />}>
      <Loaded of={[useOrganisations(), useTenantProjects()]} lines={6} label="Loading organisations">
        {(organisations, projects) => {
          const own = ({ slug }: Organisation) => projects.filter((project) => project.organisation === slug);
          const text = (one: Organisation) => [one.slug, one.display_name, one.id, ...own(one).flatMap(({ slug, display_name, id }) => [slug, display_name, id])].join(" ").toLowerCase();
          const shown = organisations.filter((one) => text(one).includes(search.trim().toLowerCase()));
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
              {shown.map((organisation) => (
                <Tenant key={organisation.id} organisation={organisation} projects={own(organisation)} />
              ))}
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}
