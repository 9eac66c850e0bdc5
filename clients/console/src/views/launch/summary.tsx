/** What would be launched, what it costs, whether it fits, and the button. */
import type { ReactNode } from "react";
import { isOfPlace } from "../../api/problem";
import type { Image, Sku } from "../../api/types";
import { bytes, plural } from "../../lib/words";
import { Button, Card, LabMark } from "../../ui/basics";
import { ProblemNote } from "../../ui/problem";
import { priceOf } from "./parts";

const FORM_FIELDS = ["name", "region_code", "sku", "gpu_count", "image", "ssh_public_keys", "labels", "placement"];

interface Ordered {
  sku: Sku | undefined;
  gpus: number;
  names: string[];
  image: Image | undefined;
  region: string;
}

export function Summary({ ordered, fit, problem, ways, retry, why, busy, ready, children }: { ordered: Ordered; /** Where it would fit. */ fit: ReactNode; problem: Error | null; /** Out of a want of capacity. */ ways?: string[]; /** Asks again after a refusal for want of a place. */ retry?: () => void; /** What keeps from its nodes what is refused for want of a place. */ why: ReactNode; busy: boolean; ready: boolean; children: ReactNode }) {
  const { sku, gpus, names, image, region } = ordered;
  const count = names.length;
  const all = gpus * count;
  return (
    <aside aria-label="Summary">
      <Card title="Summary" className="summary">
        {sku ? (
          <>
            <p className="big">
              {priceOf(sku, all) ?? "–"} <small>per hour</small> {sku.lab && <LabMark />}
            </p>
            <ul>
              <li>
                {count > 1 && `${count} × `}
                {plural(gpus, "GPU")} of {sku.display_name || sku.code}
              </li>
              {count > 1 && (
                <li>
                  {names[0]} to {names.at(-1)}: all of them or none
                </li>
              )}
              <li>
                {all * (sku.profile?.vcpus_per_gpu ?? 0)} vCPU, {bytes(all * (sku.profile?.memory_mib_per_gpu ?? 0) * 1024 * 1024)} memory
              </li>
              <li>{image ? (image.display_name ?? image.slug) : "No image can run on it"}</li>
              <li>{region}</li>
            </ul>
            {!isOfPlace(problem) && fit}
            {children}
          </>
        ) : (
          <p className="muted">Nothing can be launched as chosen: there is no product.</p>
        )}
        {problem && <ProblemNote error={problem} knownFields={FORM_FIELDS} ways={ways} retry={isOfPlace(problem) ? retry : undefined} />}
        {isOfPlace(problem) && why}
        <Button type="submit" kind="primary" busy={busy} disabled={!ready}>
          Launch{count > 1 && ` ${count}`}
        </Button>
        <small className="muted">Billed by the time from the moment you can log in. Release it to stop.</small>
      </Card>
    </aside>
  );
}
