/** Errors of the SDK in the console's words. */
import { ApiError, type FieldViolation, ProtocolError, SecretLostError, TransportError } from "@gpuaas/sdk";
import { either, raise } from "../lib/text";
import { inWords, labelOf, ownField } from "./labels";

/** The message in words that a person knows: a leading name of a field becomes its label. */
export function messageOf(problem: Pick<Problem, "message" | "fields">): string {
  if (isStale(problem)) return "Somebody else changed it meanwhile.";
  const { message, fields } = problem;
  const named = fields.find(({ field }) => message.startsWith(`${field}: `));
  return inWords(named ? `${labelOf(named.field)}: ${message.slice(named.field.length + 2)}` : message);
}

/** The violations that the message does not already contain. */
export function unsaidOf(problem: Pick<Problem, "message" | "fields">): FieldViolation[] {
  if (isStale(problem)) return [];
  const { message, fields } = problem;
  return fields.filter(({ description }) => !message.includes(description)).map(({ field, description }) => ({ field, description: inWords(description) }));
}

/** Whether a rule about `named` is one about `field`, or about a part of it, such as `ssh_public_keys[0]`. */
export function isOf(field: string, named: string): boolean {
  const own = ownField(named);
  return own === field || own.startsWith(`${field}[`) || own.startsWith(`${field}.`);
}

/** The unschedulable reasons of a refusal. */
export function causesOf({ message, metadata }: Pick<Problem, "message" | "metadata">): string[] {
  const reasons = Object.entries(metadata).filter(([key]) => key.endsWith(".message"));
  return reasons.map(([, text]) => text).filter((text) => !message.includes(text));
}

/** What went wrong, as it is shown. */
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
    const rule = this.fields.find((violation) => isOf(field, violation.field))?.description;
    return rule && inWords(rule);
  }

  /** Trying the same again may work. */
  get transient(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** What the SDK threw, as the console shows it; what is no error of a call stays what it is. */
export function problemOf(error: unknown): unknown {
  if (error instanceof ApiError) {
    const { httpStatus: status, detail, reason, metadata, requestId } = error;
    // what a proxy answered has no message
    const message = detail || `The server returned status ${status} without details.`;
    return new Problem({ status, message, reason, metadata, fields: [...error.fieldViolations], requestId });
  }
  if (error instanceof TransportError) {
    return new Problem({ status: 0, message: "The server does not answer. Check your connection. The console reconnects automatically." });
  }
  if (error instanceof SecretLostError) {
    return new Problem({ status: 409, message: `It was made, but the answer was lost on the way, and the secret is answered only once. Reload the page, then ${error.advice}.` });
  }
  if (error instanceof ProtocolError) return new Problem({ status: 502, message: "The console cannot read what the server returned." });
  return error;
}

/** The user may not do it, and asking again changes nothing. */
export function isDenied(problem: unknown): boolean {
  return problem instanceof Problem && problem.status === 403;
}

/** Somebody else changed it after it was read, so that the change was not made. */
export function isStale(problem: unknown): boolean {
  return problem instanceof Problem && problem.reason === "ETAG_STALE";
}

/** Refused until the administrator has signed in with a second factor. */
export function needsSecondFactor(problem: unknown): boolean {
  return problem instanceof Problem && problem.reason === "SECOND_FACTOR_REQUIRED";
}

const CAPACITY = ["NO_CAPACITY", "SLOTS_IN_USE", "DISKS_BEING_WIPED", "NODE_VM_LIMIT", "FRAGMENTED", "CAPACITY_RESERVED", "QUEUED_AHEAD", "NODE_DRAINING", "HOST_NOT_READY", "SLOT_UNHEALTHY", "CLEANUP_BLOCKED", "INCOMPLETE_SLOT", "FABRIC_HELD", "HUGEPAGES_MISSING"];

/** Not enough capacity is free and schedulable now. */
export function isOfCapacity(problem: unknown): boolean {
  return problem instanceof Problem && CAPACITY.includes(problem.reason);
}

/** No node qualifies: capacity is missing, or the constraints exclude it. */
export function isUnschedulable(problem: unknown): boolean {
  return isOfCapacity(problem) || (problem instanceof Problem && ["AFFINITY", "IMAGE_NOT_CACHED"].includes(problem.reason));
}

/** Advice for missing capacity; a form that knows what applies passes its own. */
const WAYS = ["request fewer GPUs", "choose another region", "wait until capacity becomes free"];

function reservationLimitAdvice({ metadata }: Problem, admin: boolean): string {
  const raised = `${raise("the reservation limit", admin)}.`;
  return metadata.limit === "0" ? raised.replace(/^./, (first) => first.toUpperCase()) : `Cancel a reservation, or ${raised}`;
}

/** Who gives a role: the platform its own, an owner that in a project or an organisation. Without any the message says all. */
function roleAdvice({ metadata: { roles } }: Problem, admin: boolean): string | undefined {
  if (!roles) return undefined;
  if (/admin|operator|auditor/.test(roles)) return "Sign in as somebody with that role, or ask an administrator.";
  return admin ? "Sign in as a member of the project: an administrator’s role does not include it." : "Ask an owner for that role, or sign in as somebody who has it.";
}

function quotaAdvice({ message }: Problem, admin: boolean): string | undefined {
  if (message.startsWith("The quota ")) return `Release an allocation, or ${raise("the quota", admin)}.`;
  // what is reserved, and no release, uses it up
  if (message.startsWith("The project may hold ")) return `${raise("the quota", admin)}.`.replace(/^./, (first) => first.toUpperCase());
  // of terminals, of projects: the message says what to do
  return undefined;
}

/** Advice where the message has none; `ways` is the advice for missing capacity, `admin` whether an administrator reads it. */
export function adviceFor(problem: Problem, ways: string[] = WAYS, admin = false): string | undefined {
  if (isOfCapacity(problem)) return either(ways);
  switch (problem.reason) {
    case "CREDENTIAL_MISSING":
    case "CREDENTIAL_INVALID":
    case "CREDENTIAL_EXPIRED":
      return "Sign in again.";
    case "SECOND_FACTOR_REQUIRED":
      return "This platform asks administrators to prove who they are with a second factor, such as a security key or a code of an app.";
    case "AFFINITY":
      return "Change the affinity or anti-affinity, or choose Anywhere.";
    case "IMAGE_NOT_CACHED":
      return "Allow nodes without the cached image. The image is pulled first and then stays cached.";
    case "PERMISSION_DENIED":
      return roleAdvice(problem, admin);
    case "SKU_UNKNOWN":
      return admin ? "Choose one of the SKUs under Catalog." : "Choose one of the SKUs that the launch form lists.";
    case "IMAGE_UNKNOWN":
      return admin ? "Choose one of the images under Catalog." : "Choose one of the images that the launch form lists.";
    case "REGION_UNKNOWN":
      if (admin) return "Choose one of the regions under Catalog.";
    // falls through
    case "REGION_DISABLED":
      return "Choose an open region. The launch form lists all regions, closed ones with the reason.";
    case "QUOTA":
      return quotaAdvice(problem, admin);
    case "RESERVATION_LIMIT":
      return reservationLimitAdvice(problem, admin);
    case "ALLOCATION_NOT_FOUND":
    case "NODE_NOT_FOUND":
    case "NOT_FOUND":
      return "The object does not exist or belongs to another project. Choose it from the list.";
    case "DEPENDENCY_UNAVAILABLE":
    case "RATE_LIMITED":
    case "OVERLOADED":
    case "DEADLINE_EXCEEDED":
      return "Try again in a moment.";
    case "ETAG_STALE":
      return "Your change was not made. Reload to see the current values, then decide again.";
    case "STATE_CONFLICT":
      return "The state of the object has changed. Reload and try again.";
    case "DISCOVERY_STALE":
      return "Discover again and review the new candidates.";
    case "INTERNAL":
      return "Try again. If the error persists, report the request id.";
    default:
      // not from the API itself, for instance from a proxy
      return problem.reason === "" && problem.status >= 500 ? "Try again in a moment. If the error persists, contact the operator." : undefined;
  }
}
