/** A project by its slug. */
import { useProjects } from "../api/queries";

/** The slug where it is known, otherwise the start of the id. */
export function ProjectName({ id = "" }: { id: string | undefined }) {
  const known = useProjects().find((project) => project.id === id);
  return known ? (
    <span title={id}>{known.slug}</span>
  ) : (
    <code title={id}>{id.slice(0, 8)}</code>
  );
}
