/** What a launch leaves of the project's quotas. */
import { useQuotas } from "../../api/queries";
import type { ProjectQuotas } from "../../api/types";
import { plural, raise } from "../../lib/text";
import { useMay } from "../../session/rights";

/** GPUs of a SKU and allocations that are still allowed; never below zero, since a lowered limit stops nothing. */
export function leftOf({ quotas = [], default_max_gpus = 0, max_allocations = 0, used_allocations = 0 }: ProjectQuotas, sku: string): { gpus: number; allocations: number } {
  const own = quotas.find((quota) => quota.sku === sku);
  const gpus = (own?.max_gpus ?? default_max_gpus) - (own?.used_gpus ?? 0);
  return { gpus: Math.max(0, gpus), allocations: Math.max(0, max_allocations - used_allocations) };
}

export function QuotaLeft({ sku, gpus, count }: { sku: string; /** Of all allocations of the launch. */ gpus: number; count: number }) {
  const quotas = useQuotas().data;
  const admin = useMay("manage");
  if (!quotas) return null;
  const left = leftOf(quotas, sku);
  const exceeds = gpus > left.gpus || count > left.allocations;
  return (
    <li className={exceeds ? "fits-not" : undefined}>
      Quota left: {plural(left.gpus, "GPU")} of this SKU, {plural(left.allocations, "allocation")}
      {exceeds && `. Release something, or ${raise("the quota", admin)}.`}
    </li>
  );
}
