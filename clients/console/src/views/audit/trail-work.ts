/** The whole trail, read in the browser: verified, or saved as JSON lines. */
import { useEffect, useRef, useState } from "react";
import { auditChains, auditPages } from "../../api/audit";
import { Chain, type Expected, type Verified, findingsOf, placeOf } from "../../lib/audit-chain";
import { saveFile } from "../../lib/csv";

export interface Work {
  kind: "verify" | "export";
  /** The source that is read now. */
  source: string;
  /** Records read, of all that there were at the beginning. */
  read: number;
  total: number;
}

export interface Verification {
  chains: Verified[];
  /** Of the chains, and of heads whose chain was not read. */
  findings: string[];
}

export interface Outcome {
  verified?: Verification;
  /** Records that were saved. */
  saved?: number;
  error?: unknown;
}

type Tell = (source: string, read: number, total: number) => void;

/** The chains to read, and how many records they have. */
async function chainsOf(wanted: string) {
  const chains = (await auditChains()).filter(({ source }) => wanted === "" || source === wanted);
  const total = chains.reduce((sum, { start, head }) => sum + placeOf(head).position - placeOf(start).position, 0);
  return { sources: chains.map(({ source = "" }) => source), total };
}

export async function verifyTrail(expected: Expected[], tell: Tell, stop: AbortSignal): Promise<Verification> {
  const { sources, total } = await chainsOf("");
  const chains: Verified[] = [];
  let read = 0;
  for (const source of sources) {
    let chain: Chain | undefined;
    for await (const { start, records = [] } of auditPages(source, stop)) {
      chain ??= new Chain(source, placeOf(start), expected);
      for (const record of records) await chain.add(record);
      read += records.length;
      tell(source, read, total);
    }
    if (chain) chains.push(chain.finish());
  }
  return { chains, findings: findingsOf(chains, expected) };
}

/** As `gpuaas admin audit export` writes it: of each source a line with what its first record follows, then its records. */
export async function exportTrail(wanted: string, tell: Tell, stop: AbortSignal): Promise<{ lines: string[]; records: number }> {
  const { sources, total } = await chainsOf(wanted);
  const lines: string[] = [];
  let read = 0;
  for (const source of sources) {
    let begun = false;
    for await (const { start, records = [] } of auditPages(source, stop)) {
      if (!begun) lines.push(JSON.stringify({ source, start }));
      begun = true;
      for (const record of records) lines.push(JSON.stringify(record));
      read += records.length;
      tell(source, read, total);
    }
  }
  return { lines, records: read };
}

/** One work at a time; it ends with the page. */
export function useTrailWork() {
  const [work, setWork] = useState<Work>();
  const [outcome, setOutcome] = useState<Outcome>();
  const running = useRef<AbortController>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  const begin = async (kind: Work["kind"], run: (tell: Tell, stop: AbortSignal) => Promise<Outcome>) => {
    running.current?.abort();
    const stop = new AbortController();
    running.current = stop;
    setOutcome(undefined);
    setWork({ kind, source: "", read: 0, total: 0 });
    const tell: Tell = (source, read, total) => !stop.signal.aborted && setWork({ kind, source, read, total });
    const done = await run(tell, stop.signal).catch((error: unknown): Outcome => ({ error }));
    if (stop.signal.aborted) return;
    setOutcome(done);
    setWork(undefined);
  };
  return {
    work,
    outcome,
    verify: (expected: Expected[]) => void begin("verify", async (tell, stop) => ({ verified: await verifyTrail(expected, tell, stop) })),
    save: (source: string, name: string) =>
      void begin("export", async (tell, stop) => {
        const { lines, records } = await exportTrail(source, tell, stop);
        saveFile(name, new Blob(lines.map((line) => `${line}\n`), { type: "application/jsonl" }));
        return { saved: records };
      }),
    stop: () => {
      running.current?.abort();
      setWork(undefined);
    },
  };
}

export type TrailWork = ReturnType<typeof useTrailWork>;
