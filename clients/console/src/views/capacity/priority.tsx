/** The queue priority of a project. */
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { priorityKey, putProjectPriority, useProjectPriority } from "../../api/capacity";
import type { Priority, ProjectPriority } from "../../api/types";
import { useProjects } from "../../api/queries";
import { isId } from "../../lib/text";
import type { Project } from "../../session/session";
import { Confirm } from "../../ui/dialog";
import { Segments } from "../../ui/form";
import { ProblemNote } from "../../ui/problem";
import { useEtag } from "../../ui/use-etag";
import { ProjectField, namesOf } from "../reservations/project-field";

const CLASSES: { value: Priority; label: string }[] = [
  { value: "high", label: "High" },
  { value: "normal", label: "Normal" },
  { value: "low", label: "Low" },
];

/** A project by its name, and by its id where it has none that is known and its own alone. */
export function projectText(id: string, known: Project[] = []): string {
  return namesOf(known).get(id) ?? id;
}

/** Confirms the priority that the server has set. */
export function setText({ project_id = "", priority }: ProjectPriority, known: Project[] = []): string {
  return `Project ${projectText(project_id, known)} now has ${priority} priority. This includes its queued requests.`;
}

/** Sets a project's priority. */
export function SetPriority({ project, trigger, notify }: { /** Without it, the dialog asks for it. */ project?: string | undefined; trigger: ReactNode; notify: (text: string) => void }) {
  const queries = useQueryClient();
  const [typed, setTyped] = useState("");
  const [priority, setPriority] = useState<Priority>();
  const [opened, setOpened] = useState(false);
  const known = useProjects();
  const id = project ?? typed.trim();
  const isKnown = known.some((one) => one.id === id) || isId(id);
  /** Without what waiting adds to that of a queued request. */
  const now = useProjectPriority(opened && isKnown ? id : "");
  const [etag, renew] = useEtag(id, now.data?.etag, priority !== undefined);
  const save = async () => {
    if (!priority) return;
    const next = await putProjectPriority(id, priority, etag);
    queries.setQueryData(priorityKey(id), next);
    notify(setText(next, known));
    // the next one starts empty
    setTyped("");
    setPriority(undefined);
    // the order may have changed
    void queries.invalidateQueries({ queryKey: ["queue"] });
  };
  // after a reload what was chosen stays, beside what is set now
  const reset = (reloaded: boolean) => {
    if (reloaded) return renew();
    setOpened(true);
    setPriority(undefined);
    void queries.invalidateQueries({ queryKey: priorityKey(id) });
  };
  return (
    <Confirm needs="operate" trigger={trigger} title="Set project priority" action="Set priority" ready={priority !== undefined && now.data !== undefined} reset={reset} run={save}>
      <p>Requests with a higher priority are placed first. Each hour in the queue raises a request by one level, so low priority requests are placed too.</p>
      {project ? (
        <p>
          Project <strong>{projectText(project, known)}</strong>
        </p>
      ) : (
        <ProjectField value={typed} onChange={setTyped} problem={id === "" || isKnown ? undefined : "No project has this name or id."} />
      )}
      {now.error && <ProblemNote error={now.error} retry={() => now.refetch()} />}
      <Segments<Priority | ""> label="Priority" options={CLASSES} value={priority ?? ""} onChoose={(value) => setPriority(value || undefined)} />
      <p className="field-hint">{now.data?.priority && `Now ${now.data.priority}. `}Applies to queued requests too. The default is normal.</p>
    </Confirm>
  );
}
