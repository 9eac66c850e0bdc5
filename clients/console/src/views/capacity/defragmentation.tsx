/** The fewest moves that would let more launches of a size fit. A simulation: nothing is moved. */
import { type FormEvent, useState } from "react";
import { Link } from "wouter";
import { type DefragmentationQuery, useDefragmentation, usePreservation } from "../../api/capacity";
import { useRegions, useSkus } from "../../api/queries";
import type { Defragmentation, NodePreservation, Region, Sku } from "../../api/types";
import { plural } from "../../lib/text";
import { Button, Card, Empty, Skeleton } from "../../ui/basics";
import { Select } from "../../ui/form";
import { Shuffle } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { NoRegions } from "../../ui/no-regions";
import { ProblemNote } from "../../ui/problem";
import { firstRegion, optionsOf, skusOf } from "../launch/choice";
import { useQueryState } from "../../ui/use-query-state";
import { Moves, movesText } from "./moves";

const USUAL_MOVES = 8;
const MAX_MOVES = [1, 2, 4, 8, 16, 32, 64].map((value) => ({ value, label: String(value) }));

export function Suggestion({ plan, max_moves }: { plan: Defragmentation; max_moves: number }) {
  const { steps = [], fits_before = 0, fits_after = 0, gpu_count = 0, cut } = plan;
  const size = `of ${plural(gpu_count, "GPU")}`;
  const all = steps.flatMap(({ moves = [] }) => moves);
  return (
    <>
      <div className="tiles">
        <Card title="Launches that fit now">
          <p className="big">{fits_before}</p>
          <p className="muted">{size}</p>
        </Card>
        <Card title="Launches that fit after the moves">
          <p className="big">{fits_after}</p>
          <p className="muted">{steps.length === 0 ? "no moves help" : `${fits_after - fits_before} more`}</p>
        </Card>
        <Card title="Moves">
          <p className="big">{all.length}</p>
          <p className="muted">{all.length > 0 ? movesText(all) : "none"}</p>
        </Card>
      </div>
      {steps.length === 0 && (
        <Empty title={`Moving at most ${plural(max_moves, "allocation")} does not let another launch fit`}>
          Allow more moves or choose a smaller size. Reserved capacity and backfill reservations are left untouched.
        </Empty>
      )}
      <ol className="steps" aria-label="Steps">
        {steps.map((step, index) => (
          <li key={step.node_id} className="card">
            <header>
              <h2>
                {index + 1}. Move off <Link href={`/admin/nodes/${step.node_id}`}>{step.hostname}</Link>
              </h2>
              <span className="fits">{plural(step.gained ?? 0, "more launch", "more launches")}</span>
            </header>
            <Moves moves={step.moves ?? []} label={`Moves off ${step.hostname}`} />
          </li>
        ))}
      </ol>
      {cut && <p className="notice">The search reached its limit. More moves may be possible.</p>}
      <p className="muted">{plan.notice}</p>
    </>
  );
}

/** The default SKU: the first one with nodes in the region. */
export function firstWithNodes(skus: Sku[], region: string, nodes: NodePreservation[]): Sku | undefined {
  return skus.find(({ slot_class }) => nodes.some((one) => one.region_code === region && one.slot_class === slot_class)) ?? skus[0];
}

function Form({ regions, skus }: { regions: Region[]; skus: Sku[] }) {
  const [wantedRegion, setRegion] = useQueryState("region");
  const region = wantedRegion || firstRegion(regions);
  const [wantedSku, setSku] = useQueryState("sku");
  const nodes = usePreservation().data?.nodes ?? [];
  const skuCode = wantedSku || (firstWithNodes(skus, region, nodes)?.code ?? "");
  const sku = skus.find(({ code }) => code === skuCode);
  const counts = sku?.allowed_gpu_counts ?? [];
  const [wantedCount, setCount] = useQueryState("gpus");
  const count = Number(wantedCount);
  // the largest size by default
  const gpus = counts.includes(count) ? count : Math.max(0, ...counts);
  const [wantedMoves, setMoves] = useQueryState("moves");
  const moves = MAX_MOVES.find(({ label }) => label === wantedMoves)?.value ?? USUAL_MOVES;
  const [query, setQuery] = useState<DefragmentationQuery>();
  const suggestion = useDefragmentation(query);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const wanted = { region_code: region, sku: skuCode, gpu_count: gpus, max_moves: moves };
    if (JSON.stringify(wanted) === JSON.stringify(query)) void suggestion.refetch();
    else setQuery(wanted);
  };
  return (
    <>
      <Card title="Find the moves that let more launches fit">
        <form className="question" onSubmit={submit}>
          <Select label="Region" value={region} onChoose={setRegion} options={optionsOf(regions)} />
          <Select label="SKU" value={skuCode} onChoose={setSku} options={optionsOf(skus)} />
          <Select label="GPUs per launch" value={gpus} onChoose={(value) => setCount(String(value))} options={counts.map((value) => ({ value, label: String(value) }))} />
          <Select label="Maximum moves" value={moves} onChoose={(value) => setMoves(value === USUAL_MOVES ? "" : String(value))} options={MAX_MOVES} />
          <Button type="submit" kind="primary" busy={suggestion.isFetching} disabled={!sku}>
            {query ? "Run again" : "Run"}
          </Button>
        </form>
        <p className="muted">
          Finds the fewest GPUs to move so that more launches fit. <strong>This is a simulation: nothing is moved or reserved.</strong> To move an allocation, its owner releases it and
          launches it again.
        </p>
      </Card>
      {suggestion.error && <ProblemNote error={suggestion.error} retry={() => suggestion.refetch()} />}
      {query && suggestion.isPending && !suggestion.error && <Skeleton lines={5} label="Searching for moves" />}
      {query && suggestion.data && <Suggestion plan={suggestion.data} max_moves={query.max_moves} />}
    </>
  );
}

export function DefragmentationTab() {
  return (
    <Loaded of={[useSkus(), useRegions()]} lines={4} label="Loading SKUs and regions">
      {(skus, regions) => {
        if (regions.length === 0) return <NoRegions />;
        const slices = skusOf(skus, "gpu_slice");
        if (slices.length === 0) return <Empty icon={<Shuffle size={28} />} title="No GPU slice SKU">Create a SKU for GPU slices first. Bare-metal nodes do not fragment.</Empty>;
        return <Form regions={regions} skus={slices} />;
      }}
    </Loaded>
  );
}
