/** What projects are called where several are named. Pure. */
interface Named {
  id: string;
  /** Unique in its organisation. */
  slug: string;
  /** Slug of its organisation, where it is known. */
  organisation?: string;
}

const known = new WeakMap<Named[], ReadonlyMap<string, string>>();

/** Each by its id: its slug, with that of its organisation before it where several have the same. Counted once for a list: each row of a table asks. */
export function projectNames(projects: Named[]): ReadonlyMap<string, string> {
  const names = known.get(projects) ?? counted(projects);
  known.set(projects, names);
  return names;
}

function counted(projects: Named[]): ReadonlyMap<string, string> {
  const count = new Map<string, number>();
  for (const { slug } of projects) count.set(slug, (count.get(slug) ?? 0) + 1);
  return new Map(projects.map(({ id, slug, organisation }) => [id, organisation && (count.get(slug) ?? 0) > 1 ? `${organisation}/${slug}` : slug]));
}
