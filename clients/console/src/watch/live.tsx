/** Whether the view is live. */
import { ProblemNote } from "../ui/problem";
import type { Watched } from "./use-watch";

const LABELS = { connecting: "Connecting…", live: "Live", reconnecting: "Reconnecting…", refused: "Not live", ended: "" };

export function LiveMark({ watched: { status } }: { watched: Watched<unknown> }) {
  const title = status === "live" ? "Changes appear as they happen." : "This view may be out of date.";
  return (
    <span className="live-mark" data-status={status} role="status" title={title}>
      {LABELS[status]}
    </span>
  );
}

/** Why a watch was refused. */
export function WatchProblem({ watched: { status, problem, view, retry } }: { watched: Watched<unknown> }) {
  // a watch that reconnects shows its problem only while there is nothing else to show
  if (!problem || (status !== "refused" && view !== undefined)) return null;
  return <ProblemNote error={problem} retry={retry} />;
}
