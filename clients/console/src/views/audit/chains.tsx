/** The hash chains of the audit trail: verified in the browser, and the whole trail saved. */
import { useState } from "react";
import { headText, headsOf } from "../../lib/audit-chain";
import { MOST_IN_MEMORY, canStream } from "../../lib/sink";
import { plural } from "../../lib/text";
import { Badge, Button, Card, CopyButton, Progress } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Field } from "../../ui/form";
import { Download } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { Table } from "../../ui/table";
import { SelectField } from "../catalog/parts";
import type { TrailWork, Verification } from "./trail-work";

/** Digests need a page that nobody on the way could change. */
const isSecure = () => globalThis.crypto?.subtle !== undefined;

export function Verify({ of }: { of: TrailWork }) {
  const [text, setText] = useState("");
  const heads = headsOf(text);
  return (
    <Confirm trigger={<Button disabled={of.work !== undefined}>Verify</Button>} title="Verify the audit trail" action="Verify" ready={heads !== undefined && isSecure()} run={async () => of.verify(heads ?? [])}>
      {isSecure() ? (
        <p>The browser reads all records already in the hash chain, computes their digests, and names each record that was changed, removed or moved.</p>
      ) : (
        <p role="alert">
          The browser cannot compute digests, because this page was not loaded over HTTPS. Use <code>gpuaas admin audit verify</code>.
        </p>
      )}
      <Field label="Checkpoints of an earlier run (optional)" problem={heads ? undefined : "One checkpoint per line, such as edge:4711:9cd51c…, with the full digest."} hint="Checkpoints also detect a chain whose newest records were removed, or that was rewritten.">
        {({ id, describedBy }) => <textarea id={id} aria-describedby={describedBy} className="mono" rows={3} spellCheck={false} value={text} onChange={(event) => setText(event.target.value)} />}
      </Field>
    </Confirm>
  );
}

const inMemory = (most: number) => `This browser keeps the file in memory until it is complete, up to ${Math.floor(most / 1024 / 1024)} MiB.`;

export function Export({ of, sources }: { of: TrailWork; sources: string[] }) {
  const [source, setSource] = useState("");
  const name = `audit-${source || "all"}-${new Date().toISOString().slice(0, 10)}.jsonl`;
  return (
    <Confirm
      trigger={
        <Button disabled={of.work !== undefined}>
          <Download size={15} aria-hidden="true" /> Export
        </Button>
      }
      title="Export the audit trail"
      action="Export"
      run={async () => of.save(source, name)}
    >
      <p>
        All records already in the hash chain, independent of the filters, as JSON lines. <code>gpuaas admin audit verify</code> verifies the file offline.
      </p>
      {!canStream() && (
        <p>
          {inMemory(MOST_IN_MEMORY)} For more, export one source at a time, or use <code>gpuaas admin audit export</code>.
        </p>
      )}
      <SelectField label="Source" value={source} onChange={setSource} options={[["", "All"], ...sources.map((one): [string, string] => [one, one])]} />
    </Confirm>
  );
}

const count = (number: number) => number.toLocaleString("en");

function Found({ verified: { chains, findings } }: { verified: Verification }) {
  const heads = chains.map(({ source, head }) => headText({ source, ...head }));
  return (
    <Card title="Hash chains" aside={<CopyButton text={heads.join("\n")} label="Copy checkpoints" />}>
      {findings.length === 0 ? (
        <p>No record was changed, removed or moved.</p>
      ) : (
        <div className="blocker" role="alert">
          The audit trail was changed:
          <ul>
            {findings.map((finding) => (
              <li key={finding}>{finding}</li>
            ))}
          </ul>
        </div>
      )}
      <Table label="Hash chains" columns={["Source", "Result", ["Records", "number"], ["Checkpoint", "optional"]]}>
        {chains.map((one, index) => (
          <tr key={one.source}>
            <td>
              <strong>{one.source}</strong>
            </td>
            <td>{one.findings.length === 0 ? <Badge tone="good">Intact</Badge> : <Badge tone="bad">{plural(one.findings.length, "finding")}</Badge>}</td>
            <td className="number">{count(one.records)}</td>
            <td className="optional">
              <code className="breaks">{heads[index]}</code>
            </td>
          </tr>
        ))}
      </Table>
      <p className="muted">Store the checkpoints where the platform’s administrators cannot write, and enter them at the next verification.</p>
    </Card>
  );
}

/** What is under way, and what came of it. */
export function Chains({ of }: { of: TrailWork }) {
  const { work, outcome } = of;
  return (
    <>
      {work && (
        <div className="under-way" role="status">
          <div className="under-way-line">
            <strong>
              {work.kind === "verify" ? "Verifying" : "Reading"} {work.source || "the hash chains"}
            </strong>
            <span className="muted">
              {count(work.read)} of {plural(work.total, "record").replace(/^\d+/, count(work.total))}
            </span>
            <Button small onClick={of.stop}>
              Stop
            </Button>
          </div>
          <Progress value={work.total === 0 ? 0 : (100 * work.read) / work.total} label={work.kind === "verify" ? "Verification" : "Export"} />
          {work.most !== undefined && <p className="muted">{inMemory(work.most)}</p>}
        </div>
      )}
      {outcome?.error !== undefined && <ProblemNote error={outcome.error} />}
      {outcome?.saved !== undefined && (
        <p className="announcement" role="status">
          Exported {plural(outcome.saved, "record")}.
        </p>
      )}
      {outcome?.verified && <Found verified={outcome.verified} />}
    </>
  );
}
