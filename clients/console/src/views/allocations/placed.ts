/** Where an allocation was asked to run, in words. Pure. */
import type { PlacementConstraints } from "../../api/types";

/** Nothing: anywhere, or it is not known. */
export function placedWords(asked: PlacementConstraints | undefined): string | undefined {
  const { same_node_as, same_node_as_label, spread_from = [], spread_from_label, require_prewarmed } = asked ?? {};
  const said = [];
  if (same_node_as) said.push(`beside ${same_node_as}`);
  if (same_node_as_label) said.push(`beside ${same_node_as_label}`);
  if (spread_from.length > 0) said.push(`apart from ${spread_from.join(" and ")}`);
  if (spread_from_label) said.push(`apart from ${spread_from_label}`);
  if (require_prewarmed) said.push("where its image is cached");
  return said.length > 0 ? said.join(", ") : undefined;
}
