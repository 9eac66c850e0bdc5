/** What a health event says of GPUs, in a word. */
import type { HealthEvent } from "../../api/health";
import { sentence } from "../../lib/text";
import { Badge } from "../../ui/basics";

/** What it was: a fault by its health, or break-fix. */
export function kindOf({ health = "unknown", break_fix = false }: HealthEvent): string {
  return break_fix ? "Break-fix" : sentence(health);
}

export function EventBadge({ event }: { event: HealthEvent }) {
  return <Badge tone={event.end_time ? "idle" : "warn"}>{event.end_time ? "Resolved" : kindOf(event)}</Badge>;
}
