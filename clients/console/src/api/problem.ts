/** What went wrong with a call, in the API's own words. */
import { either } from "../lib/words";

export interface FieldViolation {
  field: string;
  description: string;
}

interface Detail {
  "@type": string;
  reason?: string;
  metadata?: Record<string, string>;
  field_violations?: FieldViolation[];
  request_id?: string;
}

/** A field as its form names it: one of a batch is told as `allocations[2].name`, one of a reservation as `config.name`. */
export function ownField(field: string): string {
  return field.replace(/^(allocations\[\d+\]|config)\./, "");
}

/** Whether a rule about `named` is one about `field`, or about a part of it, such as `ssh_public_keys[0]`. */
export function isOf(field: string, named: string): boolean {
  const own = ownField(named);
  return own === field || own.startsWith(`${field}[`) || own.startsWith(`${field}.`);
}

/** What keeps a request from its capacity, cause by cause, as a refusal tells it. */
export function causesOf({ message, metadata }: Pick<Problem, "message" | "metadata">): string[] {
  const told = Object.entries(metadata).filter(([key]) => key.endsWith(".message"));
  return told.map(([, text]) => text).filter((text) => !message.includes(text));
}

export class Problem extends Error {
  readonly status: number;
  readonly reason: string;
  readonly fields: FieldViolation[];
  readonly metadata: Record<string, string>;
  readonly requestId: string;

  constructor(from: {
    status: number;
    message: string;
    reason?: string;
    fields?: FieldViolation[];
    metadata?: Record<string, string>;
    requestId?: string;
  }) {
    super(from.message);
    this.name = "Problem";
    this.status = from.status;
    this.reason = from.reason ?? "";
    this.fields = from.fields ?? [];
    this.metadata = from.metadata ?? {};
    this.requestId = from.requestId ?? "";
  }

  /** The same, with the allocations of a batch by their names instead of their numbers. */
  withNames(names: string[]): Problem {
    const message = this.message.replace(/\ballocations\[(\d+)\]/g, (all, index) => names[Number(index)] ?? all);
    return new Problem({ ...this, message });
  }

  /** The rule that the field breaks, or a part of it. */
  rule(field: string): string | undefined {
    return this.fields.find((violation) => isOf(field, violation.field))?.description;
  }

  /** Trying the same again may work. */
  get transient(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** Reads an error answer; anything that is not the API's own error becomes an honest sentence. */
export function problemFrom(status: number, body: unknown, requestId: string | null): Problem {
  const error = (body as { error?: { message?: string; details?: Detail[] } } | null | undefined)?.error;
  if (!error?.message) {
    return new Problem({
      status,
      message: `The server answered with status ${status} and no explanation.`,
      requestId: requestId ?? "",
    });
  }
  const details = error.details ?? [];
  const info = details.find((detail) => detail.reason !== undefined);
  return new Problem({
    status,
    message: error.message,
    reason: info?.reason,
    metadata: info?.metadata,
    fields: details.flatMap((detail) => detail.field_violations ?? []),
    requestId: details.find((detail) => detail.request_id)?.request_id ?? requestId ?? "",
  });
}

/** The call got no answer at all. */
export function unreachable(): Problem {
  return new Problem({
    status: 0,
    message: "The server does not answer. Check your connection; the console goes on by itself when it is back.",
  });
}

const CAPACITY = ["NO_CAPACITY", "SLOTS_IN_USE", "NODE_VM_LIMIT", "FRAGMENTED", "CAPACITY_RESERVED", "WAITING_AHEAD", "NODE_DRAINING", "HOST_NOT_READY", "SLOT_UNHEALTHY", "CLEANUP_BLOCKED", "INCOMPLETE_SLOT", "FABRIC_HELD", "HUGEPAGES_MISSING"];

/** There is not enough that is free and fit for sale; more may be later. */
export function isOfCapacity(problem: unknown): boolean {
  return problem instanceof Problem && CAPACITY.includes(problem.reason);
}

/** Nothing is free, or nothing where it may run: the refusal tells where it does not fit. */
export function isOfPlace(problem: unknown): boolean {
  return isOfCapacity(problem) || (problem instanceof Problem && ["AFFINITY", "IMAGE_NOT_CACHED"].includes(problem.reason));
}

/** Ways out of a want of capacity; a form that knows which of them are open gives its own. */
const WAYS = ["ask for fewer GPUs", "choose another region", "wait for others to release theirs"];

/** What to do about it, where the message itself does not say; `ways` out of a want of capacity. */
export function adviceFor(problem: Problem, ways: string[] = WAYS): string | undefined {
  if (isOfCapacity(problem)) return either(ways);
  switch (problem.reason) {
    case "CREDENTIAL_MISSING":
    case "CREDENTIAL_INVALID":
    case "CREDENTIAL_EXPIRED":
      return "Sign in again.";
    case "AFFINITY":
      return "Choose another place or another allocation to be near to, or let it run anywhere.";
    case "IMAGE_NOT_CACHED":
      return "Let it run on nodes without the image in their cache, too: it is pulled there first, and stays.";
    case "PERMISSION_DENIED":
      return "Sign in as somebody who may do this, or ask an administrator.";
    case "ALLOCATION_NOT_FOUND":
    case "NODE_NOT_FOUND":
    case "NOT_FOUND":
      return "It is gone, another project’s, or its address is mistyped: choose it from its list.";
    case "DEPENDENCY_UNAVAILABLE":
    case "OVERLOADED":
    case "DEADLINE_EXCEEDED":
      return "Try again in a moment.";
    case "STATE_CONFLICT":
      return "Its state has changed meanwhile; look at it again.";
    case "DISCOVERY_STALE":
      return "Discover again and review the new candidates.";
    case "INTERNAL":
      return "Try again; if it stays, pass on the request id.";
    default:
      // no answer of the API itself, for instance one of a proxy
      return problem.reason === "" && problem.status >= 500 ? "Try again in a moment; if it stays, ask who runs the platform." : undefined;
  }
}
