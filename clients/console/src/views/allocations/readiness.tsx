/** What the readiness checks of an image gave in the VM. */
import type { ReadinessResult } from "../../api/types";
import { Badge, Card, Time } from "../../ui/basics";

function Line({ result }: { result: ReadinessResult }) {
  const { check, passed, message, output_end, time } = result;
  return (
    <>
      <div className="under-way-line">
        <span>
          <Badge tone={passed ? "good" : "bad"}>{passed ? "Passed" : "Failed"}</Badge> <strong>{check}</strong> {message}
        </span>
        <span className="muted">
          <Time value={time} />
        </span>
      </div>
      {output_end && (
        <details open={!passed}>
          <summary>Output of {check}</summary>
          <pre>{output_end}</pre>
        </details>
      )}
    </>
  );
}

export function ReadinessChecks({ results }: { results: ReadinessResult[] | undefined }) {
  if (!results || results.length === 0) return null;
  return (
    <Card title="Readiness checks">
      {results.map((result) => (
        <Line key={result.check} result={result} />
      ))}
    </Card>
  );
}
