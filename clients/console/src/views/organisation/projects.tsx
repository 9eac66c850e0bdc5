/** The projects of an organisation, and a new one by its owners. */
import { useState } from "react";
import { useProjectsOf } from "../../api/scim";
import { type Organisation, useCreateProject } from "../../api/tenancy";
import { learnRoles } from "../../session/lifecycle";
import { Button, Empty } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { LayoutList, Plus } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { TableCard } from "../../ui/table";
import { TextField, isSlug, slugProblem } from "../catalog/parts";
import { TenantBadge, roleWord } from "../project/parts";

function NewProject({ organisation }: { organisation: Organisation }) {
  const create = useCreateProject();
  const [slug, setSlug] = useState("");
  const [name, setName] = useState("");
  const run = async () => {
    await create.mutateAsync({ organisation_id: organisation.id ?? "", slug, display_name: name.trim() });
    // its members have their role in it at once, and the menu offers it
    await learnRoles();
  };
  return (
    <Confirm
      trigger={
        <Button kind="primary">
          <Plus size={15} aria-hidden="true" /> Add a project
        </Button>
      }
      title={`Add a project to ${organisation.display_name || organisation.slug}`}
      action="Add"
      ready={isSlug(slug)}
      run={run}
    >
      <p>Members of the organisation have their role in it too. An operator sets its quotas.</p>
      <TextField label="Slug" mono value={slug} onChange={setSlug} problem={slugProblem(slug)} hint="It cannot be changed later." />
      <TextField label="Display name" value={name} onChange={setName} />
    </Confirm>
  );
}

export function Projects({ organisation, owner }: { organisation: Organisation; owner: boolean }) {
  const found = useProjectsOf(organisation.id ?? "");
  const adds = owner && organisation.state === "active";
  return (
    <Loaded of={[found]} lines={4} label="Loading projects">
      {(projects) =>
        projects.length === 0 ? (
          <Empty icon={<LayoutList size={28} />} title="No project yet" action={adds && <NewProject organisation={organisation} />}>
            Allocations, quotas and cost belong to a project. {!owner && "Owners of the organisation add one."}
          </Empty>
        ) : (
          <>
            {adds && (
              <div className="tab-actions">
                <NewProject key={projects.length} organisation={organisation} />
              </div>
            )}
            <TableCard label="Projects" columns={["Project", "Your role", ["State", "number"]]}>
              {projects.map((project) => (
                <tr key={project.id}>
                  <td>
                    <strong>{project.display_name || project.slug}</strong> <code>{project.slug}</code>
                  </td>
                  <td>{roleWord(project.role)}</td>
                  <td className="number">
                    <TenantBadge state={project.state} />
                  </td>
                </tr>
              ))}
            </TableCard>
          </>
        )
      }
    </Loaded>
  );
}
