/** Which rollouts a search lets through. Pure. */
import type { AgentRollout } from "../../api/types";
import { targetOf } from "./parts";

/** States that a rollout can be in, as the list offers them. */
export const STATES = ["running", "paused", "completed", "aborted"];

export interface RolloutFilter {
  /** Parts of version, digest, reason or of who began it. */
  search: string;
  /** One of [STATES]; empty: all. */
  state: string;
}

export function matching(rollouts: AgentRollout[], { search, state }: RolloutFilter): AgentRollout[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return rollouts.filter((rollout) => {
    const text = [targetOf(rollout), rollout.digest, rollout.principal, rollout.reason].join(" ").toLowerCase();
    return words.every((word) => text.includes(word)) && (!state || rollout.state === state);
  });
}
