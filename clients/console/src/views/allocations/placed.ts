/** Where an allocation was asked to run, in words. Pure. */
import type { PlacementConstraints } from "../../api/types";

/** Nothing: anywhere, or it is not known. */
export function placedWords(asked: PlacementConstraints | undefined): string | undefined {
  const { affinity, affinity_label, anti_affinity = [], anti_affinity_label, require_prewarmed } = asked ?? {};
  const said = [];
  if (affinity) said.push(`beside ${affinity}`);
  if (affinity_label) said.push(`beside ${affinity_label}`);
  if (anti_affinity.length > 0) said.push(`apart from ${anti_affinity.join(" and ")}`);
  if (anti_affinity_label) said.push(`apart from ${anti_affinity_label}`);
  if (require_prewarmed) said.push("where its image is cached");
  return said.length > 0 ? said.join(", ") : undefined;
}
