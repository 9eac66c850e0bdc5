/** A project by its name, with suggestions; by its id, where several have the name or none is known. */
import { useId } from "react";
import { useReservations } from "../../api/capacity";
import { useProjects } from "../../api/queries";
import type { Project } from "../../session/session";
import { Field } from "../../ui/form";

/** What each project is called: its name, or its id where the name is that of several. */
export function namesOf(projects: Project[]): Map<string, string> {
  const isUnique = ({ slug }: Project) => slug !== "" && projects.filter((other) => other.slug === slug).length === 1;
  return new Map(projects.map((project) => [project.id, isUnique(project) ? project.slug : project.id]));
}

/** The project that is meant by what was typed; what is no name stays as it is. */
export function projectOf(typed: string, names: Map<string, string>): string {
  return [...names].find(([, name]) => name === typed.trim())?.[0] ?? typed;
}

export function ProjectField({ value, onChange, problem }: { /** An id, or what was typed so far. */ value: string; onChange: (value: string) => void; problem?: string | undefined }) {
  const list = useId();
  const projects = useProjects();
  const reserved = useReservations("operator", false).data?.pages.flatMap((page) => page.reservations ?? []) ?? [];
  const others = reserved.flatMap(({ config }) => (config?.project_id && !projects.some(({ id }) => id === config.project_id) ? [{ id: config.project_id, slug: "" }] : []));
  const names = namesOf([...projects, ...others]);
  return (
    <Field label="Project" problem={problem} hint="Type a part of its name, or its id.">
      {({ id, describedBy }) => (
        <>
          <input id={id} aria-describedby={describedBy} list={list} value={names.get(value) ?? value} spellCheck={false} autoComplete="off" onChange={(event) => onChange(projectOf(event.target.value, names))} />
          <datalist id={list}>
            {[...names].map(([project, name]) => (
              <option key={project} value={name}>
                {name === project ? projects.find((one) => one.id === project)?.slug : undefined}
              </option>
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}
