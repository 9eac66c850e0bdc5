/** Answers of the server, while they come and when they do not. */
import type { ReactNode } from "react";
import { Skeleton } from "./basics";
import { ProblemNote } from "./problem";

interface Asked<T> {
  data: T | undefined;
  error: unknown;
  refetch: () => unknown;
}

/**
 * What stands where all of several answers are needed: lines until they are there, or why they are not; then what is made of
 * them, which stays when a later question fails.
 */
export function Loaded<T extends unknown[]>({ of, lines, label, children }: { of: [...{ [K in keyof T]: Asked<T[K]> }]; lines: number; label: string; children: (...data: T) => ReactNode }) {
  const failed = of.filter(({ error }) => error);
  const data = of.map((one) => one.data);
  return (
    <>
      {failed[0] && <ProblemNote error={failed[0].error} retry={() => failed.forEach(({ refetch }) => refetch())} />}
      {data.includes(undefined) ? failed.length === 0 && <Skeleton lines={lines} label={label} /> : children(...(data as T))}
    </>
  );
}
