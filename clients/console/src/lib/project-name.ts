/** What projects are called where several are named. Pure. */
interface Named {
  id: string;
  /** Unique in its organisation. */
  slug: string;
  /** Slug of its organisation, where it is known. */
  organisation?: string;
}

/** Each by its id: its slug, with that of its organisation before it where several have the same. */
export function projectNames(projects: Named[]): Map<string, string> {
  const count = new Map<string, number>();
  for (const { slug } of projects) count.set(slug, (count.get(slug) ?? 0) + 1);
  return new Map(projects.map(({ id, slug, organisation }) => [id, organisation && (count.get(slug) ?? 0) > 1 ? `${organisation}/${slug}` : slug]));
}
