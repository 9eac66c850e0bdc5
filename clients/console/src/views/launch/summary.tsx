/** The launch in short: what, its cost, whether it fits, and the button. */
import type { ReactNode } from "react";
import { isUnschedulable } from "../../api/problem";
import type { Image, Sku } from "../../api/types";
import { bytes, plural } from "../../lib/text";
import { Button, Card, LabMark } from "../../ui/basics";
import { ProblemNote } from "../../ui/problem";
import { HOURS_PER_MONTH, monthly, priceOf } from "./parts";

const FORM_FIELDS = ["name", "region_code", "sku", "gpu_count", "image", "ssh_public_keys", "labels", "placement", "auto_release_time", "user_data"];

interface Ordered {
  sku: Sku | undefined;
  gpus: number;
  names: string[];
  image: Image | undefined;
  region: string;
}

export function Summary({ ordered, quota, fit, problem, ways, retry, why, busy, ready, children }: { ordered: Ordered; /** What is left of the quota. */ quota?: ReactNode; /** Where it fits. */ fit: ReactNode; problem: Error | null; /** Advice for missing capacity. */ ways?: string[]; /** Retries an unschedulable launch. */ retry?: () => void; /** The unschedulable reasons. */ why: ReactNode; busy: boolean; ready: boolean; children: ReactNode }) {
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
            {sku.price_per_gpu_hour && <p className="muted">About {monthly(sku, all)} per month of {HOURS_PER_MONTH} hours</p>}
            <ul>
              <li>
                {count > 1 && `${count} × `}
                {plural(gpus, "GPU")} of {sku.display_name || sku.code}
              </li>
              {count > 1 && (
                <li>
                  {names[0]} to {names.at(-1)}: all or none
                </li>
              )}
              <li>
                {all * (sku.profile?.vcpus_per_gpu ?? 0)} vCPU, {bytes(all * (sku.profile?.memory_mib_per_gpu ?? 0) * 1024 * 1024)} memory
              </li>
              <li>{image ? (image.display_name ?? image.slug) : "No image available"}</li>
              <li>{region}</li>
              {quota}
            </ul>
            {!isUnschedulable(problem) && fit}
            {children}
          </>
        ) : (
          <p className="muted">Choose a SKU.</p>
        )}
        {problem && <ProblemNote error={problem} knownFields={FORM_FIELDS} ways={ways} retry={isUnschedulable(problem) ? retry : undefined} />}
        {isUnschedulable(problem) && why}
        <Button type="submit" kind="primary" busy={busy} disabled={!ready}>
          Launch{count > 1 && ` ${count}`}
        </Button>
        <small className="muted">Billing starts when you can log in and ends when you release the allocation.</small>
      </Card>
    </aside>
  );
}
