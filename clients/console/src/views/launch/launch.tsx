/** The launch form: what is available, what it costs, and why it does not fit. */
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { useLocation, useSearchParams } from "wouter";
import { type Guardrails, useBounds } from "../../api/guardrails";
import { Problem, isUnschedulable } from "../../api/problem";
import { useAllocation, useAvailability, useExplanation, useExplanations, useImages, useRegions, useSkus } from "../../api/queries";
import { useOwnKeys, useProjectKeys } from "../../api/tenancy";
import type { Allocation, Availability, Image, Region, Sku } from "../../api/types";
import { type ById, useAllocationsWatch } from "../../api/watches";
import { allowedOf, forbiddenOf } from "../../lib/forbidden";
import { keyProblem, keysOf } from "../../lib/ssh";
import { bytes, nameProblem, suggestName } from "../../lib/text";
import { uncheckedFor } from "../../lib/unchecked";
import { currentSession } from "../../session/session";
import { Card, LabMark, Skeleton } from "../../ui/basics";
import { Choice, Field, Segments, Select } from "../../ui/form";
import { Loaded } from "../../ui/loaded";
import { NoRegions } from "../../ui/no-regions";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { withParam } from "../../ui/use-query-state";
import { WatchProblem } from "../../watch/live";
import type { Watched } from "../../watch/use-watch";
import { Suspended } from "../project/suspended";
import { type Again, againOf } from "./again";
import { SHAPES, type Shape, WAITS, firstChoice, firstRegion, fitOf, fitsNow, imagesFor, isRefused, capacityOf, shapeOf, skusOf, waysOf, worthJudging } from "./choice";
import { EndChoice, endOf } from "./ending";
import { Equivalent } from "./equivalent";
import { KeyChoice } from "./key-choice";
import { keptKeys, pickedFrom, pickedOf, pickedText, rememberKeys, rememberedKeys } from "./keys";
import { FitNote, FitWord, LeftOut, RegionChoice, WaitChoice, Why, priceOf } from "./parts";
import { Placement } from "./placement";
import { QuotaLeft } from "./quota";
import { ANYWHERE, MAX_COUNT, labelsOf, namesOf, neighbours, paramsOf, placementOf, sensible, takenAmong, whereOf, whereProblem } from "./request";
import { StorageAndNetwork } from "./storage-network";
import { Summary } from "./summary";
import { useLaunch } from "./use-launch";
import { UserData, userDataProblem } from "./user-data";

const COUNTS = Array.from({ length: MAX_COUNT }, (_, index) => ({ value: index + 1, label: String(index + 1) }));

interface Offer {
  skus: Sku[];
  regions: Region[];
  images: Image[];
  availability: Availability[];
  /** Of the project's organisation. */
  guardrails: Guardrails;
}

interface Start {
  /** The address, which carries what was chosen before a reload. */
  given: URLSearchParams;
  /** The allocation to launch again. */
  earlier: Allocation | undefined;
  /** What of it still applies. */
  again: Again | undefined;
}

function Form({ offer, start, watched }: { offer: Offer; start: Start; watched: Watched<ById<Allocation>> }) {
  const { skus, regions, images, availability, guardrails } = offer;
  const allowed = (all: Sku[]) => allowedOf(guardrails, "SKU", all);
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const [{ earlier: { config: earlier } = {}, again, given }] = useState(start);
  const [, setParams] = useSearchParams();
  const principal = currentSession()?.principal ?? "";
  const [usual] = useState(() => {
    const usualRegion = earlier?.region_code || firstRegion(allowedOf(guardrails, "region", regions), { ...offer, skus: allowed(skus) });
    const usualSku = earlier?.sku || (firstChoice(allowed(skus), offer, given.get("region") || usualRegion)?.code ?? "");
    return { region: usualRegion, sku: usualSku, name: suggestName() };
  });
  const [region, setRegion] = useState(given.get("region") || usual.region);
  const [skuCode, setSku] = useState(given.get("sku") || usual.sku);
  const [shape, setShape] = useState<Shape>(SHAPES.find(({ value }) => value === given.get("shape"))?.value ?? shapeOf(skus, skuCode));
  const ofShape = skusOf(skus, shape);
  const sku = ofShape.find(({ code }) => code === skuCode) ?? firstChoice(allowed(ofShape), offer, region);
  const skuRefused = forbiddenOf(guardrails, "SKU", sku?.code ?? "");
  const counts = sku?.allowed_gpu_counts ?? [];
  const [wantedGpus, setGpus] = useState(Number(given.get("gpus")) || (earlier?.gpu_count ?? 1));
  const gpus = counts.includes(wantedGpus) ? wantedGpus : (counts[0] ?? 1);
  const [count, setCount] = useState(Math.min(Number(given.get("count")) || 1, MAX_COUNT));
  const runnable = imagesFor(images, sku?.code ?? "");
  const [wantedImage, setImage] = useState(given.get("image") ?? earlier?.image ?? "");
  const image = runnable.find(({ slug }) => slug === wantedImage) ?? runnable[0];
  const [name, setName] = useState(given.get("name") ?? usual.name);
  const [keyText, setKeyText] = useState(() => earlier?.ssh_public_keys?.join("\n") ?? rememberedKeys(principal));
  const kept = keptKeys(useOwnKeys().data, useProjectKeys().data);
  const [picked, setPicked] = useState(pickedFrom(given.get("keys")));
  const [where, setWhere] = useState(whereOf(given) ?? again?.where ?? ANYWHERE);
  const [labelText, setLabelText] = useState(given.get("labels") ?? again?.labels ?? "");
  const [end, setEnd] = useState({ isProtected: given.has("protect"), at: given.get("end") ?? "" });
  const [userData, setUserData] = useState("");
  const [waits, setWaits] = useState(given.has("queue"));
  const [waitHours, setWaitHours] = useState(WAITS.find((hours) => String(hours) === given.get("queue")) ?? 2);
  const [touched, setTouched] = useState({ name: false, keys: false, place: false });

  // a reload keeps what was chosen; of keys an address has names alone
  const chosen = JSON.stringify({
    region: region === usual.region ? "" : region,
    sku: skuCode === usual.sku ? "" : skuCode,
    shape: shape === shapeOf(skus, skuCode) ? "" : shape,
    gpus: gpus === (earlier?.gpu_count ?? counts[0]) ? "" : String(gpus),
    count: count === 1 ? "" : String(count),
    image: wantedImage === (earlier?.image ?? "") ? "" : wantedImage,
    name: name === usual.name ? "" : name,
    labels: labelText === (again?.labels ?? "") ? "" : labelText,
    ...paramsOf(where, again?.where),
    protect: end.isProtected ? "1" : "",
    end: end.at,
    keys: pickedText(picked),
    queue: waits ? String(waitHours) : "",
  });
  useEffect(() => {
    const values = JSON.parse(chosen) as Record<string, string>;
    setParams((before) => Object.entries(values).reduce((params, [key, value]) => withParam(params, key, value), before), { replace: true });
  }, [chosen]);

  const names = namesOf(name, count);
  const taken = takenAmong(names, Object.values(watched.view ?? {}));
  const nameWrong = nameProblem(names.at(-1) ?? "") ?? taken;
  const keys = keysOf(keyText);
  const keyNames = pickedOf(picked, kept, keys.length > 0);
  const keysProblem = keys.length + keyNames.length === 0 ? "Add a key. You need it to log in." : keys.map(keyProblem).find(Boolean);
  const labels = labelsOf(labelText);
  const others = watched.view && neighbours(Object.values(watched.view), region);
  const place = sensible(where, count, shape, others);
  const placement = placementOf(place, name);
  const fit = fitOf(availability, region, sku?.code ?? "", gpus);
  const anywhere = { region_code: region, sku: sku?.code ?? "", gpu_count: gpus };
  // per size, because free capacity may go to queued requests
  const explanations = useExplanations(counts.map((gpu_count) => ({ ...anywhere, gpu_count })));
  const explanation = explanations[counts.indexOf(gpus)];
  const capacity = capacityOf(fit, explanation);
  const ending = endOf(end, Date.now());
  const isVm = sku?.capacity_shape !== "baremetal";
  const dataProblem = isVm ? userDataProblem(userData) : undefined;
  const complete = !!sku && !!image && !nameWrong && !keysProblem && !!labels && !whereProblem(place) && !!ending && !dataProblem;
  const order = {
    project_id: currentSession()?.project || undefined,
    names,
    each: { region_code: region, sku: sku?.code ?? "", gpu_count: gpus, image: image?.slug ?? "", ssh_public_keys: keys, ssh_key_names: keyNames, labels: { ...labels, ...placement.labels }, placement: placement.placement, ...ending, ...(isVm && userData ? { user_data: userData } : {}) },
    waitHours: waits ? waitHours : undefined,
  };
  const asked = useLaunch(order, complete && !skuRefused && (waits || worthJudging(capacity)), JSON.stringify([capacity, explanation?.nodes_fit]), (made) => {
    rememberKeys(principal, keyText);
    for (const allocation of made) queries.setQueryData(["allocation", allocation.id], allocation);
    navigate(made.length === 1 ? `/allocations/${made[0]?.id}` : "/allocations");
  });
  const refused = useExplanation({ ...anywhere, image_digest: image?.digest, placement: placement.placement }, isUnschedulable(asked.problem)).data;
  const ways = waysOf({ regions: allowedOf(guardrails, "region", regions), skus: allowed(skus), region, sku, gpus, count, waits, explanation });
  const rule = (field: string) => (asked.problem instanceof Problem ? asked.problem.rule(field) : undefined);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTouched({ name: true, keys: true, place: true });
    if (complete) asked.launch();
  };

  return (
    <form className="launch" onSubmit={submit}>
      <div>
        {again && <LeftOut left={again.left} name={earlier?.name ?? ""} />}
        <Card title="Region">
          <RegionChoice regions={regions} value={region} onChoose={setRegion} guardrails={guardrails} />
        </Card>
        <Card title="SKU">
          <Segments label="Shape" options={SHAPES} value={shape} onChoose={setShape} />
          {ofShape.length === 0 && <p className="muted">{SHAPES.find(({ value }) => value === shape)?.none}</p>}
          <div className="choices" role="radiogroup" aria-label="SKU">
            {ofShape.map((s) => (
              <Choice key={s.code} name="sku" value={s.code} checked={s.code === sku?.code} disabled={!!forbiddenOf(guardrails, "SKU", s.code)} onChoose={() => setSku(s.code)}>
                <span className="choice-title">
                  <strong>{s.display_name || s.code}</strong> {s.lab && <LabMark />}
                </span>
                <small className="muted">
                  {s.profile?.vcpus_per_gpu} vCPU and {bytes((s.profile?.memory_mib_per_gpu ?? 0) * 1024 * 1024)} per GPU
                </small>
                {forbiddenOf(guardrails, "SKU", s.code) && <small>{forbiddenOf(guardrails, "SKU", s.code)}</small>}
                <span className="price">
                  {priceOf(s, 1) ?? "No price"} <small>{priceOf(s, 1) && "per GPU-hour"}</small>
                </span>
              </Choice>
            ))}
          </div>
          {sku && skuRefused && (
            <p className="blocker" role="alert">
              {skuRefused} Choose another one.
            </p>
          )}
          {sku && (
            <>
              <h3>GPUs</h3>
              <div className="choices counts" role="radiogroup" aria-label="GPUs">
                {counts.map((count, index) => (
                  <Choice key={count} name="gpus" value={String(count)} checked={count === gpus} onChoose={() => setGpus(count)}>
                    <strong>{count}</strong>
                    <FitWord capacity={capacityOf(fitOf(availability, region, sku.code, count), explanations[index])} />
                  </Choice>
                ))}
              </div>
              <p className="at-once">
                <Select label="Count" options={COUNTS} value={count} onChoose={setCount} />
                {count > 1 && <small className="muted">All are launched, or none.</small>}
              </p>
            </>
          )}
        </Card>
        <Card title="Image">
          {!sku && <p className="muted">Choose a SKU first.</p>}
          {sku && runnable.length === 0 && <p className="muted">No active image is available for {sku.display_name || sku.code}.</p>}
          <div className="choices" role="radiogroup" aria-label="Image">
            {runnable.map((i) => (
              <Choice key={i.slug} name="image" value={i.slug ?? ""} checked={i.slug === image?.slug} onChoose={() => setImage(i.slug ?? "")}>
                <strong>{i.slug}</strong>
                <small className="muted">{i.display_name}</small>
                {sku && uncheckedFor(i, [sku]).length > 0 && <small className="warn-text">No readiness checks: its VM becomes active without a GPU test.</small>}
              </Choice>
            ))}
          </div>
          {rule("image") && <p className="field-problem">{rule("image")}</p>}
        </Card>
        <Card title="Access">
          <Field label="Name" problem={(touched.name && nameWrong) || (!asked.busy && taken) || rule("name")} hint={count > 1 ? `Names: ${names[0]} to ${names.at(-1)}.` : "Unique among the project’s allocations."}>
            {({ id, describedBy }) => (
              <input id={id} aria-describedby={describedBy} value={name} maxLength={80} spellCheck={false} autoComplete="off" aria-invalid={(touched.name && !!nameWrong) || (!asked.busy && !!taken)} onChange={(event) => setName(event.target.value)} onBlur={() => setTouched((t) => ({ ...t, name: true }))} />
            )}
          </Field>
          <KeyChoice kept={kept} names={keyNames} choose={setPicked} />
          <Field label="SSH public keys" problem={(touched.keys && keysProblem) || rule("ssh_public_keys")} hint="One per line, as in your .pub files. Saved in this browser, for you only.">
            {({ id, describedBy }) => (
              <textarea id={id} aria-describedby={describedBy} className="mono" rows={3} spellCheck={false} placeholder="ssh-ed25519 AAAA… you@example.com" value={keyText} aria-invalid={touched.keys && !!keysProblem} onChange={(event) => setKeyText(event.target.value)} onBlur={() => setTouched((t) => ({ ...t, keys: true }))} />
            )}
          </Field>
        </Card>
        <Placement
          watched={watched}
          where={place}
          setWhere={setWhere}
          count={count}
          shape={shape}
          others={others}
          labels={labelText}
          setLabels={setLabelText}
          problem={(touched.place && whereProblem(place)) || rule("placement")}
          labelsProblem={labels ? rule("labels") : "Enter each label as key=value."}
        />
        <EndChoice end={end} setEnd={setEnd} problem={ending ? rule("auto_release_time") : "Choose a time in the future."} />
        <UserData text={userData} setText={setUserData} isOffered={isVm} problem={dataProblem ?? rule("user_data")} />
        <StorageAndNetwork sku={sku} gpus={gpus} />
      </div>
      <Summary
        ordered={{ sku, gpus, names, image, region: regions.find(({ code }) => code === region)?.display_name ?? region }}
        quota={sku && <QuotaLeft sku={sku.code} gpus={gpus * count} count={count} />}
        fit={<FitNote fit={fit} count={count} explanation={explanation} judged={asked.judged} constrained={!!placement.placement} ways={waits ? [] : ways} />}
        problem={asked.problem}
        ways={ways}
        retry={asked.again}
        why={<Why explanation={refused} />}
        busy={asked.busy}
        ready={!!sku && !!image && !skuRefused && !forbiddenOf(guardrails, "region", region) && (waits || fitsNow(capacity, count, asked.judged?.fits)) && !isRefused(asked.problem)}
      >
        <WaitChoice waits={waits} setWaits={setWaits} hours={waitHours} setHours={setWaitHours} />
        {complete && <Equivalent order={order} name={name} />}
      </Summary>
    </form>
  );
}

export default function Launch() {
  const [given] = useSearchParams();
  const id = given.get("again") ?? "";
  const { data: earlier, error, refetch } = useAllocation(id);
  const watched = useAllocationsWatch();
  const bounds = useBounds();
  const lost = id !== "" && !earlier && error;
  return (
    <Page title="Launch">
      <Suspended />
      {lost && <ProblemNote error={error} retry={refetch} />}
      {id && !lost && !watched.view && <WatchProblem watched={watched} />}
      <Loaded of={[useSkus(), useRegions(), useImages(), useAvailability(), bounds]} lines={8} label="Loading the launch form">
        {(skus, regions, images, availability, guardrails) => {
          const offer = { skus, regions, images, availability, guardrails };
          const start = { given, earlier: undefined, again: undefined };
          if (regions.length === 0) return <NoRegions />;
          if (!id || lost) return <Form key="" offer={offer} start={start} watched={watched} />;
          // the allocations of its affinity may have ended since
          if (!earlier || !watched.view) return !watched.problem && <Skeleton lines={8} label="Loading the earlier launch" />;
          const again = againOf(earlier, Object.values(watched.view), offer);
          return <Form key={id} offer={offer} start={{ ...start, earlier, again }} watched={watched} />;
        }}
      </Loaded>
    </Page>
  );
}
