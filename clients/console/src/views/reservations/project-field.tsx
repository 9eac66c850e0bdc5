/** A project by its id, with suggestions. */
import { useId } from "react";
import { useReservations } from "../../api/capacity";
import { useSession } from "../../session/session";
import { Field } from "../../ui/form";

export function ProjectField({ value, onChange, problem }: { value: string; onChange: (value: string) => void; problem?: string | undefined }) {
  const list = useId();
  const session = useSession();
  const reserved = useReservations("operator", false).data?.pages.flatMap((page) => page.reservations ?? []) ?? [];
  const known = new Map(reserved.map(({ config }) => [config?.project_id ?? "", ""]));
  for (const { id, slug } of session?.projects ?? []) known.set(id, slug);
  return (
    <Field label="Project" problem={problem} hint="The project id. Suggests your projects and projects with reservations.">
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
