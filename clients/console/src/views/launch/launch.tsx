/** The launch form: what can be had now, what it costs, and why not. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useMemo, useRef, useState } from "react";
import { useLocation, useSearch } from "wouter";
import { client, unwrap } from "../../api/client";
import { Problem } from "../../api/problem";
import { useAllocation, useAvailability, useExplanation, useImages, useRegions, useSkus } from "../../api/queries";
import type { Availability, Image, Region, Sku } from "../../api/types";
import { keyProblem, keysOf } from "../../lib/ssh";
import { bytes, plural, suggestName } from "../../lib/words";
import { currentSession } from "../../session/session";
import { Button, Card, LabMark, Skeleton } from "../../ui/basics";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { SHAPES, type Shape, firstChoice, firstRegion, fitOf, imagesFor, isRefused, nameProblem, regionProblem, skusOf, waitFor, worthJudging } from "./choice";
import { rememberKeys, rememberedKeys } from "./keys";
import { Choice, Field, FitNote, FitWord, WaitChoice, priceOf } from "./parts";

const FORM_FIELDS = ["name", "region_code", "sku", "gpu_count", "image", "ssh_public_keys"];
const SETTLED_MS = 400;

/** Whether a text has stayed the same for a moment, as when somebody has stopped typing. */
function useIsSettled(text: string): boolean {
  const [settled, setSettled] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled === text;
}

interface Offer {
  skus: Sku[];
  regions: Region[];
  images: Image[];
  availability: Availability[];
}

function Form({ offer, again }: { offer: Offer; again: string }) {
  const { skus, regions, images, availability } = offer;
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const earlier = useAllocation(again).data?.config;
  const [region, setRegion] = useState(earlier?.region_code ?? firstRegion(regions));
  const [shape, setShape] = useState<Shape>("gpu_slice");
  const [skuCode, setSku] = useState(earlier?.sku ?? firstChoice(skus, availability, region)?.code ?? "");
  const ofShape = skusOf(skus, shape);
  const sku = ofShape.find(({ code }) => code === skuCode) ?? firstChoice(ofShape, availability, region);
  const counts = sku?.allowed_gpu_counts ?? [];
  const [wantedGpus, setGpus] = useState(earlier?.gpu_count ?? 1);
  const gpus = counts.includes(wantedGpus) ? wantedGpus : (counts[0] ?? 1);
  const runnable = imagesFor(images, sku?.code ?? "");
  const [wantedImage, setImage] = useState(earlier?.image ?? "");
  const image = runnable.find(({ slug }) => slug === wantedImage) ?? runnable[0];
  const [name, setName] = useState(() => suggestName());
  const [keyText, setKeyText] = useState(() => earlier?.ssh_public_keys?.join("\n") ?? rememberedKeys());
  const [waits, setWaits] = useState(false);
  const [waitHours, setWaitHours] = useState(2);
  const [touched, setTouched] = useState({ name: false, keys: false });

  const keys = keysOf(keyText);
  const keysProblem = keys.length === 0 ? "Add a key, or you could not log in." : keys.map(keyProblem).find(Boolean);
  const fit = fitOf(availability, region, sku?.code ?? "", gpus);
  const fits = (fit?.fits ?? 0) > 0;
  const explanation = useExplanation(region, sku?.code ?? "", gpus).data;
  const complete = !!sku && !!image && !nameProblem(name) && !keysProblem;
  const body = {
    project_id: currentSession()?.project || undefined,
    name,
    region_code: region,
    sku: sku?.code ?? "",
    gpu_count: gpus,
    image: image?.slug ?? "",
    ssh_public_keys: keys,
  };

  // the server's own judgement, before anything is launched
  const text = JSON.stringify({ ...body, waits: waits && waitHours });
  // a launch that may wait is refused for no lack of room: the launch itself says what else is wrong
  const judging = useIsSettled(text) && complete && !waits && worthJudging(shape, fit);
  const judged = useQuery({
    queryKey: ["validate", text],
    enabled: judging,
    retry: false,
    queryFn: () => unwrap(client.POST("/api/v1/allocations", { body: { ...body, validate_only: true } })).then(() => true),
  });
  // one key for one attempt: the same request is repeated with it, another one gets another
  const attempt = useRef({ text: "", key: "", wait: {} });
  const launch = useMutation({
    mutationFn: () => {
      if (attempt.current.text !== text) {
        attempt.current = { text, key: crypto.randomUUID(), wait: waits ? { wait: waitFor(waitHours, Date.now()) } : {} };
      }
      const { key, wait } = attempt.current;
      return unwrap(client.POST("/api/v1/allocations", { params: { header: { "X-Idempotency-Key": key } }, body: { ...body, ...wait } }));
    },
    onSuccess: (allocation) => {
      rememberKeys(keyText);
      queries.setQueryData(["allocation", allocation.id], allocation);
      navigate(`/allocations/${allocation.id}`);
    },
  });
  const problem = launch.error ?? (judging ? judged.error : null);
  const rule = (field: string) => (problem instanceof Problem ? problem.rule(field) : undefined);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTouched({ name: true, keys: true });
    if (complete && !launch.isPending) launch.mutate();
  };
  const price = priceOf(sku, gpus);
  // a refusal belongs to what was asked for
  useEffect(() => launch.reset(), [text]);

  return (
    <form className="launch" onSubmit={submit}>
      <div>
        <Card title="Region">
          <div className="choices" role="radiogroup" aria-label="Region">
            {regions.map((r) => (
              <Choice key={r.code} name="region" value={r.code} checked={r.code === region} disabled={!!regionProblem(r)} onChoose={() => setRegion(r.code)}>
                <strong>{r.display_name || r.code}</strong>
                <small className="muted">{regionProblem(r) ?? r.code}</small>
              </Choice>
            ))}
          </div>
        </Card>
        <Card title="Product">
          <div className="segments" role="radiogroup" aria-label="Shape">
            {SHAPES.map(({ value, label }) => (
              <label key={value}>
                <input type="radio" name="shape" checked={shape === value} onChange={() => setShape(value)} />
                <span>{label}</span>
              </label>
            ))}
          </div>
          {ofShape.length === 0 && <p className="muted">{SHAPES.find(({ value }) => value === shape)?.none}</p>}
          <div className="choices" role="radiogroup" aria-label="Product">
            {ofShape.map((s) => (
              <Choice key={s.code} name="sku" value={s.code} checked={s.code === sku?.code} onChoose={() => setSku(s.code)}>
                <span className="choice-title">
                  <strong>{s.display_name || s.code}</strong> {s.lab && <LabMark />}
                </span>
                <small className="muted">
                  {s.profile?.vcpus_per_gpu} vCPU and {bytes((s.profile?.memory_mib_per_gpu ?? 0) * 1024 * 1024)} per GPU
                </small>
                <span className="price">
                  {priceOf(s, 1) ?? "No price yet"} <small>{priceOf(s, 1) && "per GPU and hour"}</small>
                </span>
              </Choice>
            ))}
          </div>
          {sku && (
            <>
              <h3>GPUs</h3>
              <div className="choices counts" role="radiogroup" aria-label="GPUs">
                {counts.map((count) => {
                  const countFit = fitOf(availability, region, sku.code, count);
                  return (
                    <Choice key={count} name="gpus" value={String(count)} checked={count === gpus} onChoose={() => setGpus(count)}>
                      <strong>{count}</strong>
                      <FitWord fit={countFit} />
                    </Choice>
                  );
                })}
              </div>
            </>
          )}
        </Card>
        <Card title="Image">
          {!sku && <p className="muted">Choose a product first: it says which images it can run.</p>}
          {sku && runnable.length === 0 && <p className="muted">No active image can run on {sku.display_name || sku.code}.</p>}
          <div className="choices" role="radiogroup" aria-label="Image">
            {runnable.map((i) => (
              <Choice key={i.slug} name="image" value={i.slug ?? ""} checked={i.slug === image?.slug} onChoose={() => setImage(i.slug ?? "")}>
                <strong>{i.slug}</strong>
                <small className="muted">{i.display_name}</small>
              </Choice>
            ))}
          </div>
          {rule("image") && <p className="field-problem">{rule("image")}</p>}
        </Card>
        <Card title="Access">
          <Field label="Name" problem={(touched.name && nameProblem(name)) || rule("name")} hint="Unique among what you have now.">
            {({ id, describedBy }) => (
              <input id={id} aria-describedby={describedBy} value={name} maxLength={80} spellCheck={false} autoComplete="off" aria-invalid={touched.name && !!nameProblem(name)} onChange={(event) => setName(event.target.value)} onBlur={() => setTouched((t) => ({ ...t, name: true }))} />
            )}
          </Field>
          <Field label="SSH public keys" problem={(touched.keys && keysProblem) || rule("ssh_public_keys")} hint="One per line, from files that end in .pub. Remembered in this browser.">
            {({ id, describedBy }) => (
              <textarea id={id} aria-describedby={describedBy} className="mono" rows={3} spellCheck={false} placeholder="ssh-ed25519 AAAA… you@example.com" value={keyText} aria-invalid={touched.keys && !!keysProblem} onChange={(event) => setKeyText(event.target.value)} onBlur={() => setTouched((t) => ({ ...t, keys: true }))} />
            )}
          </Field>
        </Card>
        <Card title="Storage and network">
          <p className="muted">
            Nothing to choose: each GPU brings one whole disk of its own, which is wiped and proven empty before and after you, and the machine gets a private address and a
            port for SSH. Both are kept while it is stopped.
          </p>
        </Card>
      </div>
      <aside aria-label="Summary">
        <Card title="Summary" className="summary">
          {sku ? (
            <>
              <p className="big">
                {price ?? "–"} <small>per hour</small> {sku.lab && <LabMark />}
              </p>
              <ul>
                <li>
                  {plural(gpus, "GPU")} of {sku.display_name || sku.code}
                </li>
                <li>
                  {gpus * (sku.profile?.vcpus_per_gpu ?? 0)} vCPU, {bytes(gpus * (sku.profile?.memory_mib_per_gpu ?? 0) * 1024 * 1024)} memory
                </li>
                <li>{image ? (image.display_name ?? image.slug) : "No image"}</li>
                <li>{regions.find(({ code }) => code === region)?.display_name ?? region}</li>
              </ul>
              <FitNote fit={fit} explanation={explanation} />
              <WaitChoice waits={waits} setWaits={setWaits} hours={waitHours} setHours={setWaitHours} />
            </>
          ) : (
            <p className="muted">Nothing can be launched as chosen: there is no product.</p>
          )}
          {problem && <ProblemNote error={problem} knownFields={FORM_FIELDS} />}
          <Button type="submit" kind="primary" busy={launch.isPending} disabled={!sku || !image || !(fits || waits) || isRefused(problem)}>
            Launch
          </Button>
          <small className="muted">Billed by the time from the moment you can log in. Release it to stop.</small>
        </Card>
      </aside>
    </form>
  );
}

export default function Launch() {
  const [skus, regions, images, availability] = [useSkus(), useRegions(), useImages(), useAvailability()];
  const search = useSearch();
  const again = useMemo(() => new URLSearchParams(search).get("again") ?? "", [search]);
  const earlier = useAllocation(again);
  const parts = [skus, regions, images, availability];
  const failed = parts.find(({ error }) => error);
  const waiting = parts.some(({ data }) => !data) || (again !== "" && earlier.isPending);
  return (
    <Page title="Launch">
      {failed && <ProblemNote error={failed.error} retry={() => parts.forEach((part) => part.refetch())} />}
      {waiting
        ? !failed && <Skeleton lines={8} label="Loading what can be launched" />
        : skus.data && regions.data && images.data && availability.data && (
            <Form again={again} offer={{ skus: skus.data, regions: regions.data, images: images.data, availability: availability.data }} />
          )}
    </Page>
  );
}
