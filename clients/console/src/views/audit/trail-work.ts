/** The whole trail, read in the browser: verified, or saved as JSON lines. */
import { useEffect, useRef, useState } from "react";
import { auditChains, auditPages } from "../../api/audit";
import { Chain, type Expected, type Verified, findingsOf, placeOf } from "../../lib/audit-chain";
import { type Sink, openSink } from "../../lib/sink";

export interface Work {
  kind: "verify" | "export";
  /** The source that is read now. */
  source: string;
  /** Records read, of all that there were at the beginning. */
  read: number;
  total: number;
  /** The most bytes that can be exported; undefined: any number. */
  most?: number | undefined;
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

type Tell = (source: string, read: number, total: number, most?: number) => void;

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
export async function exportTrail(wanted: string, write: Sink["write"], tell: Tell, stop: AbortSignal): Promise<number> {
  const { sources, total } = await chainsOf(wanted);
  let read = 0;
  for (const source of sources) {
    let begun = false;
    for await (const { start, records = [] } of auditPages(source, stop)) {
      const lines = [...(begun ? [] : [{ source, start }]), ...records];
      begun = true;
      if (lines.length > 0) await write(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
      read += records.length;
      tell(source, read, total);
    }
  }
  return read;
}

/**
 * Exports into a file that the reader chooses. The browser makes it, or empties the one of that name, when it is chosen; what was
 * written of an export that fails or is stopped does not come into it, so it stays empty.
 */
export async function saveTrail(wanted: string, name: string, tell: Tell, stop: AbortSignal): Promise<Outcome> {
  const sink = await openSink(name, "application/jsonl");
  if (!sink) return {};
  try {
    const { most } = sink;
    const saved = await exportTrail(wanted, sink.write, (source, read, total) => tell(source, read, total, most), stop);
    await sink.close();
    return { saved };
  } catch (error) {
    // the file may be what failed
    await sink.abort().catch(() => undefined);
    throw error;
  }
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
    const tell: Tell = (source, read, total, most) => !stop.signal.aborted && setWork({ kind, source, read, total, most });
    const done = await run(tell, stop.signal).catch((error: unknown): Outcome => ({ error }));
    if (stop.signal.aborted) return;
    setOutcome(done);
    setWork(undefined);
  };
  return {
    work,
    outcome,
    verify: (expected: Expected[]) => void begin("verify", async (tell, stop) => ({ verified: await verifyTrail(expected, tell, stop) })),
    save: (source: string, name: string) => void begin("export", (tell, stop) => saveTrail(source, name, tell, stop)),
    stop: () => {
      running.current?.abort();
      setWork(undefined);
    },
  };
}

export type TrailWork = ReturnType<typeof useTrailWork>;
