/** The queue priority of a project. */
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { priorityKey, putProjectPriority, useProjectPriority } from "../../api/capacity";
import type { Priority, ProjectPriority } from "../../api/types";
import { useProjects } from "../../api/queries";
import type { Project } from "../../session/session";
import { Confirm } from "../../ui/dialog";
import { Segments } from "../../ui/form";
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

/** What it is now, without what waiting adds to that of a queued request; nothing for a project that is not known. */
function Now({ project }: { project: string }) {
  const priority = useProjectPriority(project).data?.priority;
  return <p className="field-hint">{priority && `Now ${priority}. `}Applies to queued requests too. The default is normal.</p>;
}

/** Sets a project's priority. */
export function SetPriority({ project, trigger, notify }: { /** Without it, the dialog asks for it. */ project?: string | undefined; trigger: ReactNode; notify: (text: string) => void }) {
  const queries = useQueryClient();
  const [typed, setTyped] = useState("");
  const [priority, setPriority] = useState<Priority>();
  const known = useProjects();
  const id = project ?? typed.trim();
  const save = async () => {
    if (!priority) return;
    const read = queries.getQueryData<ProjectPriority>(priorityKey(id));
    const next = await putProjectPriority(id, priority, read?.etag);
    queries.setQueryData(priorityKey(id), next);
    notify(setText(next, known));
    // the next one starts empty
    setTyped("");
    setPriority(undefined);
    // the order may have changed
    void queries.invalidateQueries({ queryKey: ["queue"] });
  };
  return (
    <Confirm needs="operate" trigger={trigger} title="Set project priority" action="Set priority" ready={id !== "" && priority !== undefined} run={save}>
      <p>Requests with a higher priority are placed first. Each hour in the queue raises a request by one level, so low priority requests are placed too.</p>
      {project ? (
        <p>
          Project <strong>{projectText(project, known)}</strong>
        </p>
      ) : (
        <ProjectField value={typed} onChange={setTyped} />
      )}
      <Segments<Priority | ""> label="Priority" options={CLASSES} value={priority ?? ""} onChoose={(value) => setPriority(value || undefined)} />
      <Now project={known.some((one) => one.id === id) ? id : ""} />
    </Confirm>
  );
}
