/** Name and state of a project: suspended, resumed, closed. */
import { type ReactNode, useState } from "react";
import { type StateVerb, type TenantProject, useProjectId, useProjectState, useRenameProject, useTenantProject } from "../../api/tenancy";
import { Button, Card, CopyButton, Facts, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Loaded } from "../../ui/loaded";
import { useAsked } from "../../ui/use-asked";
import { TextField } from "../catalog/parts";
import { ReasonField, TenantBadge, roleWord } from "./parts";
import { SuspensionNote, useSuspension } from "./suspended";

export function Rename({ project }: { project: TenantProject }) {
  const rename = useRenameProject();
  const [asked, askAnew] = useAsked(project);
  const [typed, setTyped] = useState<string>();
  const name = typed ?? asked.display_name ?? "";
  const reset = () => {
    askAnew();
    setTyped(undefined);
  };
  return (
    <Confirm trigger={<Button small>Rename</Button>} title="Rename the project" action="Rename" ready={name.trim() !== ""} changed={asked.etag !== project.etag} reset={reset} run={() => rename.mutateAsync({ ...asked, display_name: name.trim() })}>
      <p>The slug does not change.</p>
      <TextField label="Display name" value={name} onChange={setTyped} />
    </Confirm>
  );
}

function Change({ project, verb, word, children }: { project: TenantProject; verb: StateVerb; word: string; children: ReactNode }) {
  const change = useProjectState();
  const [reason, setReason] = useState("");
  const name = project.display_name || project.slug;
  return (
    <Confirm danger={verb === "close"} trigger={<Button kind={verb === "close" ? "danger" : "plain"}>{word}</Button>} title={`${word} ${name}?`} action={word} run={() => change.mutateAsync({ ...project, verb, reason: reason.trim() })}>
      <p>{children}</p>
      {verb !== "resume" && <ReasonField optional value={reason} onChange={setReason} />}
    </Confirm>
  );
}

export function Settings({ manages }: { manages: boolean }) {
  const found = useTenantProject(useProjectId());
  const suspension = useSuspension(found.data);
  return (
    <>
      {suspension && <SuspensionNote of={suspension} />}
      <Loaded of={[found]} lines={6} label="Loading the project">
        {(project) => (
          <Card title={project.display_name || project.slug} aside={manages && <Rename project={project} />}>
            <Facts
              rows={[
                ["State", <TenantBadge state={project.state} />],
                ...(project.state === "closed" && project.state_reason ? ([["Reason", project.state_reason]] as [string, string][]) : []),
                ["Slug", <code>{project.slug}</code>],
                ["Organisation", project.organisation],
                ["Your role", roleWord(project.role)],
                ["Created", <Time value={project.create_time} />],
                ["ID", <span className="id-line"><code>{project.id}</code><CopyButton text={project.id ?? ""} label="Copy id" /></span>],
              ]}
            />
            {manages && project.state !== "closed" && (
              <div className="danger-zone">
                {project.state === "suspended" ? (
                  suspension?.resumable && (
                    <Change project={project} verb="resume" word="Resume">
                      Members can launch and start again.
                    </Change>
                  )
                ) : (
                  <Change project={project} verb="suspend" word="Suspend">
                    Nothing can be launched or started. Running allocations continue, are billed, and can be stopped and released.
                  </Change>
                )}
                <Change project={project} verb="close" word="Close">
                  This is permanent, and only possible once nothing runs and nothing is reserved in the project. Export its usage before: afterwards only administrators of the platform can read it.
                </Change>
              </div>
            )}
          </Card>
        )}
      </Loaded>
    </>
  );
}
