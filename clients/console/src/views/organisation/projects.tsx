/** The projects of an organisation, and a new one by its owners. */
import { useDeferredValue, useState } from "react";
import { Link } from "wouter";
import { type Organisation, type TenantProject, useCreateProject, useOrganisationProjects } from "../../api/tenancy";
import { learnRoles } from "../../session/lifecycle";
import { chooseProject, useSession } from "../../session/session";
import { Button, Empty } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { SearchBox } from "../../ui/form";
import { LayoutList, Plus, Search } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { ShowMore } from "../../ui/show-more";
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
      reset={() => {
        setSlug("");
        setName("");
      }}
      run={run}
    >
      <p>Members of the organisation have their role in the project too. An administrator sets its quotas.</p>
      <TextField label="Slug" mono value={slug} onChange={setSlug} problem={slugProblem(slug)} hint="It cannot be changed later." />
      <TextField label="Display name" value={name} onChange={setName} />
    </Confirm>
  );
}

/** Of a project that is the reader's too, the way to it. */
function Name({ project: { id = "", slug, display_name } }: { project: TenantProject }) {
  const isOwn = useSession()?.projects.some((own) => own.id === id);
  const name = <strong>{display_name || slug}</strong>;
  if (!isOwn) return name;
  return (
    <Link href="/project" onClick={() => chooseProject(id)}>
      {name}
    </Link>
  );
}

export function Projects({ organisation, owner }: { organisation: Organisation; owner: boolean }) {
  const [search, setSearch] = useState("");
  const asked = useDeferredValue(search);
  const found = useOrganisationProjects(organisation.id ?? "", asked);
  const adds = owner && organisation.state === "active";
  // what was found may be of an older search than the one that is typed
  const none = found.data?.length === 0 && search.trim() === "" && asked.trim() === "";
  return (
    <>
      {!none && (
        <>
          {adds && (found.data || search !== "" || asked !== "") && (
            <div className="tab-actions">
              <NewProject organisation={organisation} />
            </div>
          )}
          <div className="filters" role="search" aria-label="Projects">
            <SearchBox label="Search by slug or name" placeholder="Slug or name" value={search} onChange={setSearch} />
          </div>
        </>
      )}
      <Loaded of={[found]} lines={4} label="Loading projects">
        {(projects) =>
          none ? (
            <Empty icon={<LayoutList size={28} />} title="No project yet" action={adds && <NewProject organisation={organisation} />}>
              Allocations, quotas and cost belong to a project. {!owner && "Owners of the organisation add one."}
            </Empty>
          ) : projects.length === 0 ? (
            <Empty icon={<Search size={28} />} title="No project matches" action={<Button onClick={() => setSearch("")}>Clear the search</Button>}>
              Search for a part of its slug or name.
            </Empty>
          ) : (
            <TableCard label="Projects" columns={["Project", "Your role", ["State", "number"]]} foot={found.more && <ShowMore of={found} noun="project" />}>
              {projects.map((project) => (
                <tr key={project.id}>
                  <td>
                    <Name project={project} />
                    {project.display_name && project.display_name !== project.slug && <code className="block">{project.slug}</code>}
                  </td>
                  <td>{roleWord(project.role)}</td>
                  <td className="number">
                    <TenantBadge state={project.state} />
                  </td>
                </tr>
              ))}
            </TableCard>
          )
        }
      </Loaded>
    </>
  );
}
