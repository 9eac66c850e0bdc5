/** Why the sign-in that has just ended did not work. */
import { Problem, messageOf } from "../api/problem";

/** Says it to a person; `cancelled` when it was the person who ended the sign-in. */
export class SignInFailure extends Error {
  constructor(
    message: string,
    readonly cancelled = false,
  ) {
    super(message);
  }
}

let failure: unknown;
let repeated: unknown;

/** Keeps it for the sign-in page. What the provider sent, a code among it, leaves the address. */
export function noteFailure(error: unknown): void {
  failure = error;
  history.replaceState(null, "", "/");
}

export function lastFailure(): unknown {
  return failure;
}

/** Keeps the failure of a repeated sign-in, which ends no session, for the next offer to sign in again. */
export function noteRepeated(error: unknown): void {
  repeated = error;
}

/** What `noteRepeated` keeps, once. */
export function takeRepeated(): unknown {
  const taken = repeated;
  repeated = undefined;
  return taken;
}

/** Any failure of a sign-in in one sentence. */
export function sentenceOf(error: unknown): string {
  if (error instanceof Problem) return messageOf(error);
  return error instanceof SignInFailure ? error.message : "The identity provider did not answer as expected. Try again.";
}
