/** Which few allocations would have to be elsewhere for more launches of a size to fit. Nothing is moved by asking. */
import { type FormEvent, useState } from "react";
import { Link } from "wouter";
import { type RoomWanted, useDefragmentation, usePreservation } from "../../api/capacity";
import { useRegions, useSkus } from "../../api/queries";
import type { Defragmentation, NodePreservation, Region, Sku } from "../../api/types";
import { plural } from "../../lib/words";
import { Button, Card, Empty, Skeleton } from "../../ui/basics";
import { Select } from "../../ui/form";
import { Shuffle } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { NoRegions } from "../../ui/no-regions";
import { ProblemNote } from "../../ui/problem";
import { firstRegion, optionsOf, skusOf } from "../launch/choice";
import { Moves, movesText } from "./moves";

const MOST_MOVES = [1, 2, 4, 8, 16, 32, 64].map((value) => ({ value, label: String(value) }));

export function Suggestion({ found, max_moves }: { found: Defragmentation; max_moves: number }) {
  const { steps = [], fits_before = 0, fits_after = 0, gpu_count = 0, cut } = found;
  const size = `of ${plural(gpu_count, "GPU")}`;
  const all = steps.flatMap(({ moves = [] }) => moves);
  return (
    <>
      <div className="tiles">
        <Card title="Fit now">
          <p className="big">{fits_before}</p>
          <p className="muted">launches {size}</p>
        </Card>
        <Card title="Would fit after the moves">
          <p className="big">{fits_after}</p>
          <p className="muted">{steps.length === 0 ? "no move helps" : `${fits_after - fits_before} more`}</p>
        </Card>
        <Card title="To move">
          <p className="big">{all.length}</p>
          <p className="muted">{all.length > 0 ? movesText(all) : "nothing"}</p>
        </Card>
      </div>
      {steps.length === 0 && (
        <Empty title={`Moving at most ${plural(max_moves, "allocation")} would not make room for one more`}>
          Allow more moves, or ask for a smaller size. What is reserved, or kept for those who wait, takes nothing.
        </Empty>
      )}
      <ol className="steps" aria-label="Steps, in their order">
        {steps.map((step, index) => (
          <li key={step.node_id} className="card">
            <header>
              <h2>
                {index + 1}. Off <Link href={`/admin/nodes/${step.node_id}`}>{step.hostname}</Link>
              </h2>
              <span className="fits">{step.gained} more would fit</span>
            </header>
            <Moves moves={step.moves ?? []} label={`Moves off ${step.hostname}`} />
          </li>
        ))}
      </ol>
      {cut && <p className="notice">The search was given up at its bound; there may be more.</p>}
      <p className="muted">{found.notice}</p>
    </>
  );
}

/** The product to begin with: the first of which the region has nodes, since without them there is nothing to move. */
export function firstWithNodes(skus: Sku[], region: string, nodes: NodePreservation[]): Sku | undefined {
  return skus.find(({ slot_class }) => nodes.some((one) => one.region_code === region && one.slot_class === slot_class)) ?? skus[0];
}

function Form({ regions, skus }: { regions: Region[]; skus: Sku[] }) {
  const [region, setRegion] = useState(firstRegion(regions));
  const [wantedSku, setSku] = useState("");
  const nodes = usePreservation().data?.nodes ?? [];
  const skuCode = wantedSku || (firstWithNodes(skus, region, nodes)?.code ?? "");
  const sku = skus.find(({ code }) => code === skuCode);
  const counts = sku?.allowed_gpu_counts ?? [];
  const [count, setCount] = useState(0);
  // what is worth asking is whether the largest fits
  const gpus = counts.includes(count) ? count : Math.max(0, ...counts);
  const [moves, setMoves] = useState(8);
  const [asked, setAsked] = useState<RoomWanted>();
  const suggestion = useDefragmentation(asked);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const wanted = { region_code: region, sku: skuCode, gpu_count: gpus, max_moves: moves };
    if (JSON.stringify(wanted) === JSON.stringify(asked)) void suggestion.refetch();
    else setAsked(wanted);
  };
  return (
    <>
      <Card title="Make room for more launches">
        <form className="question" onSubmit={submit}>
          <Select label="Region" value={region} onChoose={setRegion} options={optionsOf(regions)} />
          <Select label="Product" value={skuCode} onChoose={setSku} options={optionsOf(skus)} />
          <Select label="GPUs of a launch" value={gpus} onChoose={setCount} options={counts.map((value) => ({ value, label: String(value) }))} />
          <Select label="Most moves" value={moves} onChoose={setMoves} options={MOST_MOVES} />
          <Button type="submit" kind="primary" busy={suggestion.isFetching} disabled={!sku}>
            {asked ? "Look again" : "Look"}
          </Button>
        </form>
        <p className="muted">
          The answer names the fewest GPUs whose moves let more launches fit. <strong>Nothing is moved</strong>, and nothing is kept free: an owner moves an allocation by releasing
          it and launching again.
        </p>
      </Card>
      {suggestion.error && <ProblemNote error={suggestion.error} retry={() => suggestion.refetch()} />}
      {asked && suggestion.isPending && !suggestion.error && <Skeleton lines={5} label="Looking for moves" />}
      {asked && suggestion.data && <Suggestion found={suggestion.data} max_moves={asked.max_moves} />}
    </>
  );
}

export function MakeRoom() {
  return (
    <Loaded of={[useSkus(), useRegions()]} lines={4} label="Loading products and regions">
      {(skus, regions) => {
        if (regions.length === 0) return <NoRegions />;
        const slices = skusOf(skus, "gpu_slice");
        if (slices.length === 0) return <Empty icon={<Shuffle size={28} />} title="Nothing is sold in slices">Create a SKU first; whole nodes do not break up.</Empty>;
        return <Form regions={regions} skus={slices} />;
      }}
    </Loaded>
  );
}
