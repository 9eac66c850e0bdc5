/** A project by its name. */
import { useProjects } from "../api/queries";
import { projectNames } from "../lib/project-name";

/** Its name where it is known, otherwise the start of the id. */
export function ProjectName({ id = "" }: { id: string | undefined }) {
  const known = projectNames(useProjects()).get(id);
  return known ? (
    <span title={id}>{known}</span>
  ) : (
    <code title={id}>{id.slice(0, 8)}</code>
  );
}
