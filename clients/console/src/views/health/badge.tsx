/** What a health event says of GPUs, in a word. */
import type { HealthEvent } from "../../api/health";
import { sentence } from "../../lib/text";
import { Badge } from "../../ui/basics";

/** What it was: a fault by its health, or a repair by hand. */
export function kindOf({ health = "unknown", repair = false }: HealthEvent): string {
  return repair ? "Repair by hand" : sentence(health);
}

export function EventBadge({ event }: { event: HealthEvent }) {
  return <Badge tone={event.end_time ? "idle" : "warn"}>{event.end_time ? "Resolved" : kindOf(event)}</Badge>;
}
