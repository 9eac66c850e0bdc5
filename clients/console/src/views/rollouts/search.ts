/** Which rollouts a search selects. Pure. */
import { everyFilter, wordsFilter } from "../../api/pages";

/** States that a rollout can be in, as the list offers them. */
export const STATES = ["running", "paused", "completed", "aborted"];

export interface RolloutSearch {
  /** Parts of version, reason or of who began it. */
  search: string;
  /** One of [STATES]; others: all. */
  state: string;
}

/** As a filter of the API. */
export function filterOf({ search, state }: RolloutSearch): string {
  return everyFilter(wordsFilter(["version", "principal", "reason"], search), STATES.includes(state) ? `state = ${state}` : "");
}
