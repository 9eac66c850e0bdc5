/** A project by its slug. */
import { useSession } from "../session/session";

/** The slug for members, otherwise the start of the id. */
export function ProjectName({ id = "" }: { id: string | undefined }) {
  const known = useSession()?.projects.find((project) => project.id === id);
  return known ? (
    <span title={id}>{known.slug}</span>
  ) : (
    <code title={id}>{id.slice(0, 8)}</code>
  );
}
