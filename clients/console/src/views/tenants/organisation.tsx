/** One organisation of any caller, for operators: its state, its projects and its members. */
import { useOrganisation, useTenantProjects } from "../../api/tenancy";
import { useMay } from "../../session/rights";
import { Card, CopyButton, Facts, Skeleton, Time } from "../../ui/basics";
import { Loaded } from "../../ui/loaded";
import { ProblemNote } from "../../ui/problem";
import { Back, Page } from "../../ui/shell";
import { Members } from "../project/members";
import { TenantBadge } from "../project/parts";
import { OrganisationActions, ProjectsTable } from "./parts";

export default function TenantOrganisation({ id }: { id: string }) {
  const found = useOrganisation(id);
  const manages = useMay("manage");
  const projects = useTenantProjects();
  const crumb = <Back to="/admin/organisations">Organisations</Back>;
  const organisation = found.data;
  if (!organisation) {
    return (
      <Page title="Organisation" crumb={crumb}>
        {found.error ? <ProblemNote error={found.error} retry={() => found.refetch()} /> : <Skeleton lines={8} label="Loading the organisation" />}
      </Page>
    );
  }
  const { slug, display_name, state, state_reason, create_time } = organisation;
  const name = display_name || slug || id;
  return (
    <Page
      crumb={crumb}
      name={name}
      title={
        <>
          {name} <TenantBadge state={state} />
        </>
      }
      actions={<OrganisationActions organisation={organisation} />}
    >
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      <div className="columns">
        <div>
          <Card title="Projects">
            <Loaded of={[projects]} lines={3} label="Loading projects">
              {(all) => <ProjectsTable organisation={organisation} projects={all.filter((project) => project.organisation === slug)} />}
            </Loaded>
          </Card>
        </div>
        <div>
          <Card title="Organisation">
            <Facts
              rows={[
                ...(state_reason ? ([["Reason", state_reason]] as [string, string][]) : []),
                ["Slug", <code>{slug}</code>],
                ["Created", <Time value={create_time} />],
                ["ID", <span className="id-line"><code>{id}</code><CopyButton text={id} label="Copy id" /></span>],
              ]}
            />
          </Card>
        </div>
      </div>
      <h2 className="list-title">Members</h2>
      <p className="muted">Members have their role in all projects of the organisation.</p>
      <Members tenant={{ kind: "organisation", id }} manages={manages && state !== "closed"} />
    </Page>
  );
}
