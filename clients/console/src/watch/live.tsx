/** Whether the view is live. */
import { Problem } from "../api/problem";
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

/** Whether the watch's own note says the same as this error of another call. */
export function isTold({ status, problem }: Pick<Watched<unknown>, "status" | "problem">, error: unknown): boolean {
  return status === "refused" && problem instanceof Problem && error instanceof Problem && problem.status === error.status && problem.reason === error.reason;
}

/** Why a watch was refused. */
export function WatchProblem({ watched: { status, problem, view, retry } }: { watched: Watched<unknown> }) {
  // a watch that reconnects shows its problem only while there is nothing else to show
  if (!problem || (status !== "refused" && view !== undefined)) return null;
  return <ProblemNote error={problem} retry={retry} />;
}
