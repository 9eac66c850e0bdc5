/** An error in full: message, fields, advice, and the request id. */
import { adviceFor, causesOf, isOf, isStale, isUnschedulable, messageOf, needsSecondFactor, Problem, unsaidOf } from "../api/problem";
import { labelOf } from "../api/labels";
import { useMay } from "../session/rights";
import { Button, CopyButton } from "./basics";
import { Reload } from "./reload";
import { SecondFactor } from "./second-factor";
import { CircleAlert } from "./icons";

function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem({ status: 0, message: `The console failed: ${error instanceof Error ? error.message : String(error)}` });
}

export function ProblemNote({ error, retry, reloaded, knownFields = [], ways }: { error: unknown; retry?: () => void; /** What somebody else changed is shown as it is now. */ reloaded?: () => void; knownFields?: string[]; /** Advice for missing capacity. */ ways?: string[] }) {
  const problem = asProblem(error);
  const advice = adviceFor(problem, ways, useMay("manage"));
  // a form shows the rule beside the field
  const fields = unsaidOf(problem).filter(({ field }) => !knownFields.some((known) => isOf(known, field)));
  const causes = causesOf(problem);
  return (
    <div className="problem" role="alert">
      <CircleAlert size={18} aria-hidden="true" />
      <div>
        <p className="problem-message">{messageOf(problem)}</p>
        {fields.length > 0 && (
          <ul>
            {fields.map(({ field, description }) => (
              <li key={field + description}>
                <strong title={field}>{labelOf(field)}</strong> {description}
              </li>
            ))}
          </ul>
        )}
        {causes.length > 0 && (
          <ul className="causes">
            {causes.map((cause) => (
              <li key={cause}>{cause}</li>
            ))}
          </ul>
        )}
        {advice && <p>{advice}</p>}
        {needsSecondFactor(problem) && <SecondFactor />}
        {isStale(problem) && (
          <p>
            <Reload done={reloaded} />
          </p>
        )}
        {(problem.reason || problem.requestId) && (
          <p className="problem-id">
            {problem.reason && <span>{problem.reason}</span>}
            {problem.requestId && (
              <>
                <span>request {problem.requestId}</span>
                <CopyButton text={problem.requestId} label="Copy request id" />
              </>
            )}
          </p>
        )}
      </div>
      {retry && (problem.transient || isUnschedulable(problem)) && (
        <Button small onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}
