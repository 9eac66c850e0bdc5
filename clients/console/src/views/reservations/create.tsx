/** The form that reserves GPUs. */
import { type FormEvent, useEffect, useState } from "react";
import { useLocation, useSearchParams } from "wouter";
import { type Side, useReserve } from "../../api/capacity";
import { type Guardrails, useBounds } from "../../api/guardrails";
import { Problem, isOfCapacity } from "../../api/problem";
import { useAvailability, useImages, useQuotas, useRegions, useSkus } from "../../api/queries";
import type { Region, Sku } from "../../api/types";
import { allowedOf, forbiddenOf } from "../../lib/forbidden";
import { plannedTime, span, toField, zone } from "../../lib/time";
import { suggestName } from "../../lib/text";
import { currentSession } from "../../session/session";
import { Button, Card, Empty, LabMark } from "../../ui/basics";
import { Choice, Field, Segments } from "../../ui/form";
import { Loaded } from "../../ui/loaded";
import { NoRegions } from "../../ui/no-regions";
import { ProblemNote } from "../../ui/problem";
import { Back, Page } from "../../ui/shell";
import { useAttempt } from "../../ui/use-attempt";
import { useNow } from "../../ui/use-now";
import { withParam } from "../../ui/use-query-state";
import { type Opening, firstChoice, firstRegion } from "../launch/choice";
import { RegionChoice } from "../launch/parts";
import { HOME, TITLE, RULES } from "./parts";
import { ProjectField } from "./project-field";
import { type Draft, draftOf, paramsOf, problemsOf, requestOf, unusedOf, waysOf, windowOf } from "./rules";
import { NoLimit } from "./no-limit";

const LENGTHS: [string, number][] = [
  ["8 hours", 8],
  ["1 day", 24],
  ["1 week", 168],
  ["30 days", 720],
];
/** API fields whose violations are shown at a field of the form. */
const FIELDS: Partial<Record<keyof Draft, string>> = { project: "project_id", name: "name", gpus: "gpu_count", start: "start_time", end: "end_time" };

const when = (time: number | undefined) => (time === undefined ? "–" : plannedTime(new Date(time).toISOString()));

function Form({ side, skus, regions, opening, guardrails }: { side: Side; skus: Sku[]; regions: Region[]; opening: Opening; /** None for operators: those of the organisation of the project that they choose are not loaded, and the API refuses. */ guardrails: Guardrails }) {
  const [, navigate] = useLocation();
  const now = useNow(30_000);
  const session = currentSession();
  const [given, setParams] = useSearchParams();
  const [usual] = useState(() => {
    const allowed = allowedOf(guardrails, "SKU", skus);
    const region = firstRegion(allowedOf(guardrails, "region", regions), { ...opening, skus: allowed });
    const first = firstChoice(allowed, opening, given.get("region") || region);
    return { project: session?.project || session?.projects[0]?.id || "", name: suggestName(), region, sku: first?.code ?? "", gpus: String(Math.min(...(first?.allowed_gpu_counts ?? [1]))) };
  });
  const [draft, setDraft] = useState<Draft>(() => draftOf(given, usual, Date.now()));
  const [shown, setShown] = useState(false);
  const set = <K extends keyof Draft>(field: K, value: Draft[K]) => setDraft((before) => ({ ...before, [field]: value }));
  // a reload keeps what was typed
  const typed = JSON.stringify(paramsOf(draft, usual));
  useEffect(() => {
    const values = Object.entries(JSON.parse(typed) as Record<string, string>);
    setParams((before) => values.reduce((params, [key, value]) => withParam(params, key, value), before), { replace: true });
  }, [typed]);
  const sku = skus.find(({ code }) => code === draft.sku);
  const least = Math.min(...(sku?.allowed_gpu_counts ?? [1]));
  const wrong = problemsOf(draft, side, least, now);
  const reserve = useReserve(side);
  const ways = waysOf(draft, least, allowedOf(guardrails, "region", regions));
  const text = JSON.stringify(draft);
  const attempt = useAttempt(text, () => requestOf(draft, side, session?.project ?? "", Date.now()));
  const [begin, end] = windowOf(draft, now);
  // an error belongs to the request that caused it
  useEffect(() => reserve.reset(), [text]);
  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    setShown(true);
    if (Object.keys(wrong).length > 0 || reserve.isPending || !sku) return;
    reserve.mutate(attempt(), { onSuccess: (made) => navigate(`${HOME[side]}/${made.id}`) });
  };
  // an end that is typed takes the place of a length that was chosen
  const change = (field: "name" | "gpus" | "start" | "end", value: string) => setDraft((before) => ({ ...before, [field]: value, ...(field === "end" && { hours: undefined }) }));
  const problem = (field: keyof Draft) => (shown ? wrong[field] : undefined) ?? (reserve.error instanceof Problem && FIELDS[field] ? reserve.error.rule(FIELDS[field]) : undefined);
  const input = (field: "name" | "gpus" | "start" | "end", label: string, hint: string, more: React.ComponentProps<"input">) => (
    <Field label={label} problem={problem(field)} hint={hint}>
      {({ id, describedBy }) => (
        <input id={id} aria-describedby={describedBy} aria-invalid={!!problem(field)} value={field === "end" && draft.hours !== undefined && end !== undefined ? toField(end) : draft[field]} autoComplete="off" onChange={(event) => change(field, event.target.value)} {...more} />
      )}
    </Field>
  );

  return (
    <form className="launch" onSubmit={submit} noValidate>
      <div>
        <Card title="Capacity">
          {side === "operator" && <ProjectField value={draft.project} onChange={(project) => set("project", project)} problem={problem("project")} />}
          {side === "operator" && <p className="muted">The API refuses a region or SKU that the organisation of the project does not allow.</p>}
          <h3>Region</h3>
          <RegionChoice regions={regions} value={draft.region} onChoose={(region) => set("region", region)} guardrails={guardrails} />
          <h3>SKU</h3>
          <div className="choices" role="radiogroup" aria-label="SKU">
            {skus.map((one) => (
              <Choice key={one.code} name="sku" value={one.code} checked={one.code === draft.sku} disabled={!!forbiddenOf(guardrails, "SKU", one.code)} onChoose={() => set("sku", one.code)}>
                <span className="choice-title">
                  <strong>{one.display_name || one.code}</strong> {one.lab && <LabMark />}
                </span>
                <small className="muted">{one.allowed_gpu_counts.join(", ")} GPUs per allocation</small>
                {forbiddenOf(guardrails, "SKU", one.code) && <small>{forbiddenOf(guardrails, "SKU", one.code)}</small>}
              </Choice>
            ))}
          </div>
          <div className="pair">
            {input("gpus", "GPUs", least > 1 ? `A multiple of ${least}.` : "Launches can use any GPU count of the SKU.", { inputMode: "numeric" })}
            {input("name", "Name", "Lowercase letters, digits and hyphens.", { spellCheck: false, maxLength: 80 })}
          </div>
        </Card>
        <Card title="Time" aside={<small className="muted">Times in {zone}</small>}>
          <Segments
            label="Start"
            value={draft.later ? "later" : "now"}
            onChoose={(value) => set("later", value === "later")}
            options={[
              { value: "now", label: "Start now" },
              { value: "later", label: "Start later" },
            ]}
          />
          <div className="pair">
            {draft.later && input("start", "From", "At most 90 days from now.", { type: "datetime-local" })}
            {input("end", draft.later ? "To" : "Until", "At most 90 days after the start.", { type: "datetime-local" })}
          </div>
          <p className="lengths">
            <span className="muted">Or for</span>
            {LENGTHS.map(([label, hours]) => (
              <Button key={label} small aria-pressed={draft.hours === hours} onClick={() => set("hours", hours)}>
                {label}
              </Button>
            ))}
          </p>
          {draft.later ? (
            <p className="muted">Nothing is reserved before the start time. From then on, the reservation takes GPUs as they become free.</p>
          ) : (
            <label className="check">
              <input type="checkbox" checked={draft.gather} onChange={(event) => set("gather", event.target.checked)} />
              <span>
                Start with the GPUs that are free now, and add more as they become free
                <small className="muted">Otherwise all GPUs must be free now.</small>
              </span>
            </label>
          )}
        </Card>
        <Card title="Idle release">
          <Field label="Release a GPU after it has been unused for" hint="Applies to each GPU separately. The reservation shrinks.">
            {({ id, describedBy }) => (
              <select id={id} aria-describedby={describedBy} value={draft.unused} onChange={(event) => set("unused", Number(event.target.value))}>
                {unusedOf(side).map(({ value, label }) => (
                  <option key={value} value={value}>
                    {label}
                  </option>
                ))}
              </select>
            )}
          </Field>
        </Card>
      </div>
      <aside aria-label="Summary">
        <Card title="Summary" className="summary">
          <p className="big">
            {Number(draft.gpus) || 0} <small>{Number(draft.gpus) === 1 ? "GPU" : "GPUs"}</small>
          </p>
          <ul>
            <li>{sku?.display_name || sku?.code || "No SKU"}</li>
            <li>{regions.find(({ code }) => code === draft.region)?.display_name ?? draft.region}</li>
            <li>
              From {draft.later ? when(begin) : "now"} to {when(end)}
            </li>
            {begin !== undefined && end !== undefined && end > begin && <li>{span(end - begin)}</li>}
          </ul>
          <p className="muted">{RULES[side]}</p>
          {reserve.error && <ProblemNote error={reserve.error} knownFields={Object.values(FIELDS)} ways={ways} />}
          {isOfCapacity(reserve.error) && !draft.gather && !draft.later && (
            <Button onClick={() => set("gather", true)}>Start with the free GPUs</Button>
          )}
          {shown && Object.keys(wrong).length > 0 && <p className="field-problem">Correct the fields marked above.</p>}
          <Button type="submit" kind="primary" busy={reserve.isPending} disabled={!sku}>
            Reserve
          </Button>
        </Card>
      </aside>
    </form>
  );
}

/** Operators reserve for any project, whatever its limit. */
const UNLIMITED = { data: null, error: null, refetch: () => undefined };

export default function Reserve({ side }: { side: Side }) {
  const crumb = <Back to={HOME[side]}>{TITLE[side]}</Back>;
  const quotas = useQuotas(side === "project");
  // an operator's own project is not the one that is reserved for
  const bounds = useBounds(side === "project" ? {} : { organisation_id: "" });
  return (
    <Page title="Reserve GPUs" crumb={crumb}>
      <Loaded of={[useSkus(), useRegions(), useImages(), useAvailability(), side === "project" ? quotas : UNLIMITED, bounds]} lines={6} label="Loading SKUs and regions">
        {(skus, regions, images, availability, limits, guardrails) => {
          if (limits && !limits.max_reserved_gpus) return <NoLimit />;
          if (regions.length === 0) return <NoRegions />;
          if (skus.length === 0) return <Empty title="No SKU is available">Reservations need a SKU. An operator creates one with <code>gpuaas admin sku put</code>.</Empty>;
          return <Form side={side} skus={skus} regions={regions} opening={{ skus, images, availability }} guardrails={guardrails} />;
        }}
      </Loaded>
    </Page>
  );
}
