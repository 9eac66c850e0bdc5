/** The placement constraints of an allocation as text. Pure. */
import type { PlacementConstraints } from "../../api/types";

/** Undefined without constraints, or when they are unknown. */
export function constraintsText(constraints: PlacementConstraints | undefined): string | undefined {
  const { affinity, affinity_label, anti_affinity = [], anti_affinity_label, require_prewarmed } = constraints ?? {};
  const parts = [];
  if (affinity) parts.push(`affinity to ${affinity}`);
  if (affinity_label) parts.push(`affinity to ${affinity_label}`);
  if (anti_affinity.length > 0) parts.push(`anti-affinity to ${anti_affinity.join(" and ")}`);
  if (anti_affinity_label) parts.push(`anti-affinity to ${anti_affinity_label}`);
  if (require_prewarmed) parts.push("image cached");
  return parts.length > 0 ? parts.join(", ") : undefined;
}
