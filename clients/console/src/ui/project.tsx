/** A project as people know it. */
import { useSession } from "../session/session";

/** Its name where the one who is signed in belongs to it; else what one compares of its id. */
export function ProjectName({ id = "" }: { id: string | undefined }) {
  const known = useSession()?.projects.find((project) => project.id === id);
  return known ? (
    <span title={id}>{known.slug}</span>
  ) : (
    <code title={id}>{id.slice(0, 8)}</code>
  );
}
