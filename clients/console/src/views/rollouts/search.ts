/** Which rollouts a search selects. Pure. */
import { type Searched, wordsFilter } from "../../api/pages";

/** States that a rollout can be in, as the list offers them. */
export const STATES = ["running", "paused", "completed", "aborted"];

export interface RolloutSearch {
  /** Parts of version, reason or of who began it. */
  search: string;
  /** One of [STATES]; others: all. */
  state: string;
}

/** As a filter of the API. */
export function filterOf({ search, state }: RolloutSearch): Searched {
  return wordsFilter(["version", "principal", "reason"], search, { rest: [STATES.includes(state) ? `state = ${state}` : ""] });
}
