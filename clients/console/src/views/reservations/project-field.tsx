/** A project by its id, with suggestions. */
import { useId } from "react";
import { useReservations } from "../../api/capacity";
import { useProjects } from "../../api/queries";
import { Field } from "../../ui/form";

export function ProjectField({ value, onChange, problem }: { value: string; onChange: (value: string) => void; problem?: string | undefined }) {
  const list = useId();
  const projects = useProjects();
  const reserved = useReservations("operator", false).data?.pages.flatMap((page) => page.reservations ?? []) ?? [];
  const known = new Map(reserved.map(({ config }) => [config?.project_id ?? "", ""]));
  for (const { id, slug } of projects) known.set(id, slug);
  return (
    <Field label="Project" problem={problem} hint={known.get(value) ? `${known.get(value)}. Clear the field and type a part of a name to find another one.` : "Its id. Type a part of its name to find it."}>
      {({ id, describedBy }) => (
        <>
          <input id={id} aria-describedby={describedBy} className="mono" list={list} value={value} spellCheck={false} autoComplete="off" onChange={(event) => onChange(event.target.value)} />
          <datalist id={list}>
            {[...known].map(([project, slug]) => (
              <option key={project} value={project}>
                {slug}
              </option>
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}
