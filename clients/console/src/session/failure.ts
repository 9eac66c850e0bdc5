/** Why the sign-in that has just ended did not work. */

/** Says it to a person. */
export class SignInFailure extends Error {}

let failure: unknown;

/** Keeps it for the sign-in page. What the provider sent, a code among it, leaves the address. */
export function noteFailure(error: unknown): void {
  failure = error;
  history.replaceState(null, "", "/");
}

export function lastFailure(): unknown {
  return failure;
}
