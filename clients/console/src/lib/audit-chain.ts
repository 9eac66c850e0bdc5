/** Verifies hash chains of audit records as the API shows them. The operator's guide says what a digest covers. */
import type { AuditRecord } from "../api/audit";

/** Members of a record that its digest covers; each is a string. */
const MEMBERS = ["action", "address", "create_time", "detail", "id", "position", "principal", "region", "request_id", "resource", "resource_id", "service", "source", "user_agent"] as const;
const DIGEST = /^[0-9a-f]{64}$/;

/** A place in a chain. */
export interface Place {
  /** 0 before the first record. */
  position: number;
  /** In hex. */
  digest: string;
}

/** A head that was noted before: the chain must still contain it. */
export interface Expected extends Place {
  source: string;
}

export interface Verified {
  source: string;
  records: number;
  head: Place;
  findings: string[];
}

/** As `gpuaas admin audit verify` prints and takes it. */
export function headText({ source, position, digest }: Expected): string {
  return `${source}:${position}:${digest}`;
}

/** Heads with white space between them; undefined where one is none. */
export function headsOf(text: string): Expected[] | undefined {
  const heads = text.split(/\s+/).filter(Boolean).map((one) => /^([a-z_]+):(\d{1,15}):([0-9a-f]{64})$/.exec(one));
  return heads.includes(null) ? undefined : heads.flatMap((match) => (match ? [{ source: match[1] ?? "", position: Number(match[2]), digest: match[3] ?? "" }] : []));
}

export function placeOf({ position = "0", digest = "" }: { position?: string; digest?: string } = {}): Place {
  return { position: Number(position), digest };
}

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
}

/** The digest of a record after the one before it: of the record in canonical JSON (RFC 8785). */
export async function digestOf(before: string, record: AuditRecord): Promise<string> {
  const text = JSON.stringify(Object.fromEntries(MEMBERS.map((name) => [name, record[name] ?? ""])));
  const covered = new Uint8Array([...bytesOf(before), ...new TextEncoder().encode(text)]);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", covered));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What was found of all chains, and of noted heads whose chain was not read: a source that is not listed any more shows nothing else. */
export function findingsOf(verified: Verified[], expected: Expected[]): string[] {
  const unread = expected.filter(({ source }) => !verified.some((one) => one.source === source));
  const missing = unread.map((one) => `${one.source}: the chain is missing; checkpoint ${headText(one)} is expected`);
  return [...new Set([...verified.flatMap(({ findings }) => findings), ...missing])];
}

/** A chain that is being verified, record by record. */
export class Chain {
  private head: Place;
  private records = 0;
  private readonly findings: string[] = [];
  private readonly expected: { place: Place; met: boolean }[];

  /** Its oldest record follows `start`. */
  constructor(
    private readonly source: string,
    private readonly start: Place,
    expected: Expected[] = [],
  ) {
    this.head = start;
    this.expected = expected.filter((one) => one.source === source).map((place) => ({ place, met: false }));
    this.compare();
  }

  /** The next record. */
  async add(record: AuditRecord): Promise<void> {
    this.records += 1;
    const { position, digest } = placeOf(record);
    const id = record.id ?? "";
    if (position === 0 || !DIGEST.test(digest)) return this.find(`record ${id} has no position or no digest`);
    const next = this.head.position + 1;
    if (position < next) return this.find(`record ${id} at position ${position} is out of order: position ${next} is expected`);
    if (position > next) {
      const missing = next === position - 1 ? `the record at position ${next} is missing` : `the records at positions ${next} to ${position - 1} are missing`;
      this.find(`${missing}; the next one is ${id}`);
    } else if ((await digestOf(this.head.digest, record)) !== digest) {
      this.find(`record ${id} at position ${position} does not match its digest: the record was changed or replaced`);
    }
    // from here on the stored digest counts, so that each finding is of one record
    this.head = { position, digest };
    this.compare();
  }

  /** The chain is over. */
  finish(): Verified {
    const [head, start] = [this.head.position, this.start.position];
    for (const { place } of this.expected.filter(({ met }) => !met)) {
      if (place.position > head) this.find(`the chain ends at position ${head}, but position ${place.position} is expected: its newest records were removed`);
      else if (place.position < start) this.find(`the records up to position ${place.position} are past their retention time; verify an older export`);
    }
    return { source: this.source, records: this.records, head: this.head, findings: this.findings };
  }

  private compare(): void {
    for (const one of this.expected.filter(({ place }) => place.position === this.head.position)) {
      one.met = true;
      if (one.place.digest !== this.head.digest) this.find(`the digest at position ${one.place.position} differs from the checkpoint: the chain was rewritten`);
    }
  }

  private find(what: string): void {
    this.findings.push(`${this.source}: ${what}`);
  }
}
