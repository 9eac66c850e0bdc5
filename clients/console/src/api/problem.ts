/** What went wrong with a call, in the API's own words. */

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

  /** The rule that the field breaks; also for a rule about a part of it, such as `ssh_public_keys[0]`. */
  rule(field: string): string | undefined {
    const ours = (name: string) => name === field || name.startsWith(`${field}[`) || name.startsWith(`${field}.`);
    return this.fields.find((violation) => ours(violation.field))?.description;
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

/** What to do about it, where the message itself does not say. */
export function adviceFor(problem: Problem): string | undefined {
  switch (problem.reason) {
    case "CREDENTIAL_MISSING":
    case "CREDENTIAL_INVALID":
    case "CREDENTIAL_EXPIRED":
      return "Sign in again.";
    case "NO_CAPACITY":
    case "SLOTS_IN_USE":
    case "FRAGMENTED":
      return "Ask for fewer GPUs, choose another region, or wait for others to release theirs.";
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
      return undefined;
  }
}
