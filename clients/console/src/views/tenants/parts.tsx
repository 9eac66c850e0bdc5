/** What operators see and change of an organisation, in the list of all and on its own page. */
import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import { type Organisation, type StateVerb, type TenantProject, useCreateProject, useOrganisationState } from "../../api/tenancy";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Table } from "../../ui/table";
import { TextField, isSlug, slugProblem } from "../catalog/parts";
import { SetScim } from "../organisation/scim";
import { ReasonField, TenantBadge } from "../project/parts";

/** Both in a list, where they are small, and on the page of the organisation. */
interface Of {
  organisation: Organisation;
  small: boolean;
}

function NewProject({ organisation, small }: Of) {
  const create = useCreateProject();
  const [slug, setSlug] = useState("");
  const [name, setName] = useState("");
  const run = async () => {
    await create.mutateAsync({ organisation_id: organisation.id ?? "", slug, display_name: name.trim() });
    setSlug("");
    setName("");
  };
  return (
    <Confirm needs="manage" trigger={<Button small={small} aria-label={`Add a project to ${organisation.slug}`}>Add a project</Button>} title={`Add a project to ${organisation.slug}`} action="Add" ready={isSlug(slug)} run={run}>
      <TextField label="Slug" mono value={slug} onChange={setSlug} problem={slugProblem(slug)} />
      <TextField label="Display name" value={name} onChange={setName} />
    </Confirm>
  );
}

function Change({ organisation, small, verb, word, children }: Of & { verb: StateVerb; word: string; children: ReactNode }) {
  const change = useOrganisationState();
  const [reason, setReason] = useState("");
  return (
    <Confirm
      needs="manage"
      danger={verb === "close"}
      trigger={
        <Button small={small} kind={verb === "close" && !small ? "danger" : "plain"} aria-label={`${word} ${organisation.slug}`}>
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

export function OrganisationActions({ organisation, small = false }: Partial<Of> & Pick<Of, "organisation">) {
  const { id = "", slug, state } = organisation;
  return (
    <span className="page-actions">
      {state === "active" && <NewProject organisation={organisation} small={small} />}
      {state !== "closed" && <SetScim organisation={id} name={slug} small={small} />}
      {state === "active" && (
        <Change organisation={organisation} small={small} verb="suspend" word="Suspend">
          Nothing can be launched or started in its projects. Running allocations continue and are billed.
        </Change>
      )}
      {state === "suspended" && (
        <Change organisation={organisation} small={small} verb="resume" word="Resume">
          Its projects can launch again.
        </Change>
      )}
      {state !== "closed" && (
        <Change organisation={organisation} small={small} verb="close" word="Close">
          This is permanent, and only possible once all of its projects are closed.
        </Change>
      )}
    </span>
  );
}

export function ProjectsTable({ organisation, projects }: { organisation: Organisation; projects: TenantProject[] }) {
  if (projects.length === 0) return <p className="muted">No project yet.</p>;
  return (
    <Table label={`Projects of ${organisation.slug}`} columns={["Project", ["ID", "optional"], ["State", "number"]]}>
      {projects.map((project) => (
        <tr key={project.id}>
          <td>
            <Link href={`/admin/projects/${project.id}`}>
              <strong>{project.display_name || project.slug}</strong>
            </Link>
            {project.display_name && project.display_name !== project.slug && <code className="block">{project.slug}</code>}
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
  );
}
