/** What the owners of an organisation forbid in all of its projects: owners change it, others read it. */
import { useState } from "react";
import { type Guardrails, useChangeGuardrails, useGuardrails } from "../../api/guardrails";
import { useRegions, useSkus } from "../../api/queries";
import { Button, Card, Facts } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Loaded } from "../../ui/loaded";
import { useAsked } from "../../ui/use-asked";
import { TextField } from "../catalog/parts";
import { type Draft, SWITCHES, changeOf, daysProblem, draftOf, namesProblem, unknownOf, wordsOf } from "./guardrail-rules";

/** What a list of names means, and which of them nothing has now. */
function hintOf(meaning: string, unknown: string[]): string {
  return unknown.length > 0 ? `${unknown.join(", ")} ${unknown.length === 1 ? "is" : "are"} not offered now. ${meaning}` : meaning;
}

export function Change({ guardrails }: { guardrails: Guardrails }) {
  const change = useChangeGuardrails(guardrails.organisation_id ?? "");
  const [asked, askAnew] = useAsked(guardrails);
  const [typed, setTyped] = useState<Draft>();
  const draft = typed ?? draftOf(asked);
  const set = (part: Partial<Draft>) => setTyped({ ...draft, ...part });
  const reset = () => {
    askAnew();
    setTyped(undefined);
  };
  const problems = [daysProblem(draft.days), namesProblem(draft.regions), namesProblem(draft.skus)];
  const [regions, skus] = [useRegions().data, useSkus().data];
  const body = changeOf(asked, draft);
  return (
    <Confirm
      trigger={<Button small>Change</Button>}
      title="Change the guardrails"
      action="Change"
      ready={problems.every((problem) => !problem) && Object.keys(body).length > 0}
      changed={asked.etag !== guardrails.etag}
      reset={reset}
      run={() => change.mutateAsync({ ...body, etag: asked.etag })}
    >
      <p>Guardrails apply within seconds to all projects of the organisation and to everybody, including owners and administrators.</p>
      {SWITCHES.map(([name, label, hint]) => (
        <label key={name} className="check">
          <input type="checkbox" checked={draft.on[name]} onChange={(event) => set({ on: { ...draft.on, [name]: event.target.checked } })} />{" "}
          <span>
            {label} <small className="muted">{hint}</small>
          </span>
        </label>
      ))}
      <TextField numeric label="API keys expire after days" value={draft.days} onChange={(days) => set({ days })} problem={problems[0]} hint="Empty: no limit. Applies to new and rotated keys." />
      <TextField label="Allowed regions" value={draft.regions} onChange={(regions) => set({ regions })} problem={problems[1]} hint={hintOf("Codes with commas between them. Empty: all.", unknownOf(draft.regions, regions?.map(({ code }) => code)))} />
      <TextField label="Allowed SKUs" value={draft.skus} onChange={(skus) => set({ skus })} problem={problems[2]} hint={hintOf("Codes with commas between them. Empty: all.", unknownOf(draft.skus, skus?.map(({ code }) => code)))} />
    </Confirm>
  );
}

export function GuardrailsCard({ organisation, owner }: { organisation: string; owner: boolean }) {
  return (
    <Loaded of={[useGuardrails(organisation)]} lines={4} label="Loading the guardrails">
      {(guardrails) => (
        <Card title="Guardrails" aside={owner && <Change guardrails={guardrails} />}>
          <p className="muted">Limits that no role and no grant can override.</p>
          <Facts rows={wordsOf(guardrails)} />
        </Card>
      )}
    </Loaded>
  );
}
