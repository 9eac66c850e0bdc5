/** Says whether what is shown is what is. */
import { ProblemNote } from "../ui/problem";
import type { Watched } from "./use-watch";

const WORDS = { connecting: "Connecting…", live: "Live", reconnecting: "Reconnecting…", refused: "Not live", ended: "" };

export function LiveMark({ watched: { status } }: { watched: Watched<unknown> }) {
  const title = status === "live" ? "Changes appear here as they happen." : "What you see may be out of date.";
  return (
    <span className="live-mark" data-status={status} role="status" title={title}>
      {WORDS[status]}
    </span>
  );
}

/** Why a watch was refused. */
export function WatchProblem({ watched: { status, problem, view, retry } }: { watched: Watched<unknown> }) {
  // one that is tried again is worth a word only while there is nothing to show
  if (!problem || (status !== "refused" && view !== undefined)) return null;
  return <ProblemNote error={problem} retry={retry} />;
}
