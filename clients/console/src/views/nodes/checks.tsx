/** The checks of a node: what they found, what to do about it, and how old that is. */
import type { Evidence as Reported } from "../../api/types";
import { plural, sentence } from "../../lib/text";
import { Badge, Empty, Time, type Tone } from "../../ui/basics";
import { type Column, TableCard } from "../../ui/table";
import { useQuerySwitch } from "../../ui/use-query-state";
import { evidenceCounts } from "./parts";

/** With what newer agents say of a check. */
export type Evidence = Reported & { severity?: string; devices?: string[] };

const TONES: Record<string, Tone> = { pass: "good", fail: "bad", warn: "warn", skip: "idle" };
const COLUMNS: Column[] = ["Check", "Result", "Severity", "Details", ["Observed", "number"]];
const ORDER = ["fail", "warn", "pass", "skip"];
const SEVERITIES: Record<string, [word: string, meaning: string]> = {
  hard: ["Hard", "A failure makes the node, or the slots of the failed device, unschedulable."],
  warn: ["Warning", "A failure is a warning; the node stays schedulable."],
  info: ["Information", "Neither outcome is a fault."],
};

/** What fails first, then what warns; of one outcome what counts most, then by name. */
export function inOrder(evidence: Evidence[]): Evidence[] {
  const rank = ({ status }: Evidence) => ORDER.indexOf(status ?? "");
  const weight = ({ severity }: Evidence) => Object.keys(SEVERITIES).indexOf(severity ?? "") + 1 || 9;
  return [...evidence].sort((a, b) => rank(a) - rank(b) || weight(a) - weight(b) || (a.check ?? "").localeCompare(b.check ?? ""));
}

function Severity({ value = "" }: { value: string | undefined }) {
  const [word, meaning] = SEVERITIES[value] ?? ["–", "The check does not apply to this kind of host."];
  return <span title={meaning}>{word}</span>;
}

/** "2 fail, 1 warns, 14 pass, 3 do not apply". */
export function countsText(evidence: Evidence[]): string {
  const { fail, warn, pass, skip } = evidenceCounts(evidence);
  const parts: [number, string, string][] = [
    [fail, "fails", "fail"],
    [warn, "warns", "warn"],
    [pass, "passes", "pass"],
    [skip, "does not apply", "do not apply"],
  ];
  const shown = parts.filter(([count]) => count > 0).map(([count, one, many]) => `${count} ${count === 1 ? one : many}`);
  return shown.join(", ") || "none";
}

export function Checks({ evidence }: { evidence: Evidence[] }) {
  const [onlyProblems, setOnlyProblems] = useQuerySwitch("problems");
  if (evidence.length === 0) {
    return <Empty title="No report from the node yet">Start its agent with the enrolment token. Its checks appear here after the first report.</Empty>;
  }
  const sorted = inOrder(evidence);
  const rows = onlyProblems ? sorted.filter(({ status }) => status === "fail" || status === "warn") : sorted;
  return (
    <>
      <p className="lead">
        <span role="status">
          {plural(evidence.length, "check")}: {countsText(evidence)}.
        </span>
        <label className="switch">
          <input type="checkbox" role="switch" checked={onlyProblems} onChange={(event) => setOnlyProblems(event.target.checked)} />
          <span>Only problems</span>
        </label>
      </p>
      {rows.length === 0 ? (
        <Empty title="All checks pass">The node meets the requirements of its mode.</Empty>
      ) : (
        <TableCard label="Evidence" columns={COLUMNS}>
          {rows.map((item) => (
            <tr key={item.check}>
              <td>
                <strong>{sentence(item.check ?? "")}</strong>
              </td>
              <td>
                <Badge tone={TONES[item.status ?? ""] ?? "idle"}>{sentence(item.status ?? "")}</Badge>
              </td>
              <td>
                <Severity value={item.severity} />
              </td>
              <td className="breaks">
                {item.detail}
                {item.devices && item.devices.length > 0 && (
                  <p className="muted">
                    Only: <code>{item.devices.join(", ")}</code>
                  </p>
                )}
                {item.remediation && (item.status === "fail" || item.status === "warn") && (
                  <p className="remediation">
                    <strong>To do:</strong> {item.remediation}
                  </p>
                )}
              </td>
              <td className="number">
                <Time value={item.observed_at} />
              </td>
            </tr>
          ))}
        </TableCard>
      )}
    </>
  );
}
