/** Server data: loading, failed, or present. */
import type { ReactNode } from "react";
import { Skeleton } from "./basics";
import { ProblemNote } from "./problem";

interface Result<T> {
  data: T | undefined;
  error: unknown;
  refetch: () => unknown;
}

/**
 * Shows a skeleton until all results are there, or why they are not; then the children, which stay when a later refresh fails.
 */
export function Loaded<T extends unknown[]>({ of, lines, label, children }: { of: [...{ [K in keyof T]: Result<T[K]> }]; lines: number; label: string; children: (...data: T) => ReactNode }) {
  const failed = of.filter(({ error }) => error);
  const data = of.map((one) => one.data);
  return (
    <>
      {failed[0] && <ProblemNote error={failed[0].error} retry={() => failed.forEach(({ refetch }) => refetch())} />}
      {data.includes(undefined) ? failed.length === 0 && <Skeleton lines={lines} label={label} /> : children(...(data as T))}
    </>
  );
}
