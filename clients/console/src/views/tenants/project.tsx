/** One project of any organisation, for operators: its state, what runs in it, and its members. */
import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import { type StateVerb, type TenantProject, useOrganisation, useProjectState, useTenantProject } from "../../api/tenancy";
import { useMay } from "../../session/rights";
import { Button, Card, CopyButton, Facts, Skeleton, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Loaded } from "../../ui/loaded";
import { ProblemNote } from "../../ui/problem";
import { Back, Page } from "../../ui/shell";
import { Table } from "../../ui/table";
import { Members } from "../project/members";
import { ReasonField, TenantBadge } from "../project/parts";
import { SuspensionNote } from "../project/suspended";
import { suspensionOf } from "../project/suspension";
import { FEW, LeftText, restText, useRunning } from "./running";

function Change({ project, verb, word, ready = true, children }: { project: TenantProject; verb: StateVerb; word: string; ready?: boolean; children: ReactNode }) {
  const change = useProjectState();
  const [reason, setReason] = useState("");
  const needsReason = verb !== "resume";
  return (
    <Confirm
      needs="manage"
      danger={verb === "close"}
      trigger={<Button kind={verb === "close" ? "danger" : "plain"}>{word}</Button>}
      title={`${word} ${project.display_name || project.slug}?`}
      action={word}
      ready={ready && (!needsReason || reason.trim() !== "")}
      reset={() => setReason("")}
      run={() => change.mutateAsync({ ...project, verb, reason: reason.trim() })}
    >
      {children}
      {needsReason && <ReasonField value={reason} onChange={setReason} />}
    </Confirm>
  );
}

function StillRunning({ id, found }: { id: string; found: ReturnType<typeof useRunning> }) {
  return (
    <Card title="Running" aside={<Link href={`/admin/allocations?project=${id}`}>Allocations</Link>}>
      <Loaded of={[found]} lines={3} label="Loading allocations and reservations">
        {({ left, more }) =>
          left.length === 0 ? (
            <p className="muted">Nothing runs in the project, and nothing is reserved for it.</p>
          ) : (
            <>
              <Table label="Running" columns={["Name", "Kind", ["State", "number"]]}>
                {left.slice(0, FEW).map(({ id: of, kind, name, state, to }) => (
                  <tr key={of}>
                    <td>
                      <Link href={to}>
                        <strong>{name}</strong>
                      </Link>
                    </td>
                    <td>{kind}</td>
                    <td className="number">{state}</td>
                  </tr>
                ))}
              </Table>
              {(left.length > FEW || more) && <p className="muted">{restText({ left, more })}</p>}
            </>
          )
        }
      </Loaded>
    </Card>
  );
}

export default function TenantProjectPage({ id }: { id: string }) {
  const found = useTenantProject(id);
  const manages = useMay("manage");
  const running = useRunning(id);
  const project = found.data;
  const organisation = useOrganisation(project?.organisation_id ?? "");
  const crumb = <Back to="/admin/organisations">Organisations</Back>;
  if (!project) {
    return (
      <Page title="Project" crumb={crumb}>
        {found.error ? <ProblemNote error={found.error} retry={() => found.refetch()} /> : <Skeleton lines={8} label="Loading the project" />}
      </Page>
    );
  }
  const { slug, display_name, state, state_reason, organisation: of, organisation_id, create_time } = project;
  const name = display_name || slug || id;
  // who may resume it depends on whether its organisation is suspended
  const suspension = organisation.isPending ? undefined : suspensionOf(project, organisation.data, { owner: false, admin: manages });
  return (
    <Page
      crumb={crumb}
      name={name}
      title={
        <>
          {name} <TenantBadge state={state} />
        </>
      }
      actions={
        state !== "closed" && (
          <>
            {state === "active" && (
              <Change project={project} verb="suspend" word="Suspend">
                <p>Nothing can be launched or started. Running allocations continue, are billed, and can be stopped and released. Only an administrator can resume the project.</p>
              </Change>
            )}
            {suspension?.resumable && (
              <Change project={project} verb="resume" word="Resume">
                <p>Members can launch and start again.</p>
              </Change>
            )}
            <Change project={project} verb="close" word="Close" ready={running.data?.left.length === 0}>
              <LeftText running={running.data} />
            </Change>
          </>
        )
      }
    >
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      {suspension && <SuspensionNote of={suspension} />}
      <div className="columns">
        <div>
          <StillRunning id={id} found={running} />
        </div>
        <div>
          <Card title="Project" aside={<Link href={`/admin/quotas?search=${id}`}>Quotas</Link>}>
            <Facts
              rows={[
                ...(state === "closed" && state_reason ? ([["Reason", state_reason]] as [string, string][]) : []),
                ["Organisation", <Link href={`/admin/organisations/${organisation_id}`}>{of}</Link>],
                ["Slug", <code>{slug}</code>],
                ["Created", <Time value={create_time} />],
                ["ID", <span className="id-line"><code>{id}</code><CopyButton text={id} label="Copy id" /></span>],
              ]}
            />
          </Card>
        </div>
      </div>
      <h2 className="list-title">Members</h2>
      <p className="muted">Members of the organisation have their role here too, and are listed there.</p>
      <Members tenant={{ kind: "project", id }} manages={manages && state !== "closed"} />
    </Page>
  );
}
