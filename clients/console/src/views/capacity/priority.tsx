/** The class in which a project's requests wait. */
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { putProjectPriority } from "../../api/capacity";
import type { Priority, ProjectPriority } from "../../api/types";
import { type Project, currentSession } from "../../session/session";
import { Confirm } from "../../ui/dialog";
import { Segments } from "../../ui/form";
import { ProjectField } from "../reservations/project-field";

const CLASSES: { value: Priority; label: string }[] = [
  { value: "high", label: "High" },
  { value: "normal", label: "Normal" },
  { value: "low", label: "Low" },
];

/** A project in words that leave no doubt which one it is. */
export function projectText(id: string, known: Project[] = []): string {
  const slug = known.find((project) => project.id === id)?.slug;
  return slug ? `${slug} (${id})` : id;
}

/** What was set, as the server has answered it. */
export function setText({ project_id = "", priority }: ProjectPriority, known: Project[] = []): string {
  return `Requests of project ${projectText(project_id, known)} wait in class ${priority} now, those in line included.`;
}

/** Asks for a class and sets it. Nobody tells which one a project is in: a request in line may have been raised by its wait. */
export function SetPriority({ project, trigger, told }: { /** Without it, it is asked for. */ project?: string | undefined; trigger: ReactNode; told: (text: string) => void }) {
  const queries = useQueryClient();
  const [typed, setTyped] = useState("");
  const [priority, setPriority] = useState<Priority>();
  const known = currentSession()?.projects;
  const id = project ?? typed.trim();
  const save = async () => {
    if (!priority) return;
    told(setText(await putProjectPriority(id, priority), known));
    // the next one is asked for anew
    setTyped("");
    setPriority(undefined);
    // the order may be another one now
    void queries.invalidateQueries({ queryKey: ["line"] });
  };
  return (
    <Confirm trigger={trigger} title="Priority of a project" action="Set the class" ready={id !== "" && priority !== undefined} run={save}>
      <p>The first of a higher class is served before those of a lower one. Every hour of waiting raises a request by one class, so a low one is served, too.</p>
      {project ? (
        <p>
          Project <strong>{projectText(project, known)}</strong>
        </p>
      ) : (
        <ProjectField value={typed} onChange={setTyped} />
      )}
      <Segments<Priority | ""> label="Class" options={CLASSES} value={priority ?? ""} onChoose={(value) => setPriority(value || undefined)} />
      <p className="field-hint">It counts for what waits already, too. Where nothing was set it is normal.</p>
    </Confirm>
  );
}
