/** How sessions of identity providers begin, stay good, and end. */
import { Problem } from "../api/problem";
import { whoIs } from "./caller";
import { SignInFailure, noteRepeated } from "./failure";
import { type UsableIssuer, listIssuers, stepUpOf } from "./issuers";
import type { Tokens } from "./oidc";
import { ownPath, pendingPath } from "./pending";
import { type Session, beginSession, currentSession, endSession, firstProject, learnCaller, newestSession, projectAfter, readToken, shareSession } from "./session";

/** A provider that does not say how long a token lives. */
const UNKNOWN_LIFE_MS = 5 * 60_000;
/** Between two attempts to renew while the provider does not answer. */
const RETRY_MS = 15_000;
/** The longest time that a browser waits. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** Loaded apart: most pages are opened with a session. */
const oidc = () => import("./oidc");

/** Leads to the provider; the browser comes back to the page that it is at. */
export async function signIn(issuer: UsableIssuer): Promise<void> {
  await (await oidc()).begin(issuer, ownPath(location.pathname + location.search));
}

/** The same for who is signed in and needs a second factor; the session stays until the new one has begun. */
export async function signInAgain(): Promise<void> {
  const source = currentSession()?.source;
  const issuer = (await listIssuers()).find((one) => one.issuer === source?.issuer && one.console_client_id === source.clientId);
  if (!issuer) throw new SignInFailure("The identity provider of your session is not offered here any more. Sign out, and sign in with another one.");
  await (await oidc()).begin(issuer, ownPath(location.pathname + location.search), stepUpOf(issuer));
}

function timesOf({ token, expires }: Tokens): { expires: number; renewAt: number } {
  const end = expires ?? readToken(token)?.expires ?? Date.now() + UNKNOWN_LIFE_MS;
  // two thirds of the life, so that some attempts may fail
  return { expires: end, renewAt: end - (end - Date.now()) / 3 };
}

/**
 * Completes the sign-in that the provider has sent the browser back from. A repeated one that fails leaves the session
 * as it was.
 */
export async function completeSignIn(): Promise<void> {
  const before = currentSession();
  const page = pendingPath();
  try {
    const given = await (await oidc()).complete();
    const { principal, platformRole, projects, organisations } = await whoIs(given.token);
    const { source } = before ?? {};
    if (source && before?.principal !== principal) throw new SignInFailure(`You signed in as ${principal}. You are still ${before?.principal} here: to change that, sign out first.`);
    const project = before?.principal === principal ? projectAfter(before, projects) : firstProject(principal, projects);
    const next: Session = { token: given.token, principal, platformRole, projects, organisations, project, ...timesOf(given), signedIn: Date.now(), source: given.source };
    // other tabs would stay refused what this sign-in allows
    if (source?.issuer === given.source.issuer) shareSession(next);
    else beginSession(next);
  } catch (failure) {
    if (!before) throw failure;
    // who cancels knows it
    if (!(failure instanceof SignInFailure && failure.cancelled)) noteRepeated(failure);
  }
  history.replaceState(null, "", page);
}

/** The renewal under way. */
let renewal: { token: string; done: Promise<void> } | undefined;
/** The token that the provider could not renew last, and when that was. */
let failed: { token: string; time: number } | undefined;

/** Renews a session that has expired meanwhile, as on a computer that slept: of all calls that need it, one asks the provider. */
export async function ensureGood(): Promise<void> {
  const session = currentSession();
  if (!session?.source?.refreshToken || session.expires > Date.now()) return;
  // when the provider does not answer, the API says that the token has expired
  await renew(session).catch(() => undefined);
}

/**
 * After a sleep: a session that is due is renewed, and one that has ended meanwhile, at the provider or by its age, ends here.
 * A server or a provider that cannot be reached yet changes nothing.
 */
export async function wake(): Promise<void> {
  const session = currentSession();
  if (!session) return;
  if (session.source?.refreshToken && session.renewAt <= Date.now()) await renew(session).catch(() => undefined);
  else if (session.expires <= Date.now()) endSession("expired");
  else if (await hasEnded(session)) endRefused(session);
}

/** Ends a session that the API refuses, unless another one took its place while it was asked. */
function endRefused({ token }: Session): void {
  if (currentSession()?.token === token) endSession("refused");
}

/** Asks which roles the caller has now. A server that does not answer changes nothing. */
export async function learnRoles(): Promise<void> {
  await ensureGood();
  const token = currentSession()?.token;
  if (!token) return;
  try {
    const { platformRole, projects, organisations } = await whoIs(token);
    learnCaller({ platformRole, projects, organisations }, token);
  } catch {
    // what is known stays
  }
}

/** Renews a session in time, for as long as it is the current one, or ends it with its token; returns what stops that. */
export function keepGood(session: Session): () => void {
  let timer = 0;
  if (!session.source?.refreshToken) {
    const look = () => {
      if (session.expires <= Date.now()) endSession("expired");
      else timer = window.setTimeout(look, Math.min(session.expires - Date.now(), MAX_TIMEOUT_MS));
    };
    look();
    return () => window.clearTimeout(timer);
  }
  const attempt = async () => {
    try {
      await renew(session);
    } catch {
      // the old token still works for a while
      timer = window.setTimeout(attempt, RETRY_MS);
    }
  };
  timer = window.setTimeout(attempt, Math.min(Math.max(session.renewAt - Date.now(), 0), MAX_TIMEOUT_MS));
  return () => window.clearTimeout(timer);
}

/**
 * A refresh token is good once, and all tabs have the same: one tab renews at a time, and who comes later takes what it
 * got.
 */
function renew(session: Session): Promise<void> {
  if (renewal?.token === session.token) return renewal.done;
  if (failed?.token === session.token && Date.now() - failed.time < RETRY_MS) return Promise.reject(new Error("the provider has just not answered"));
  const done = renewAlone(session).finally(() => {
    renewal = undefined;
  });
  renewal = { token: session.token, done };
  return done;
}

async function renewAlone(session: Session): Promise<void> {
  await alone(async () => {
    await newestSession();
    // roles and the chosen project change meanwhile; it is the same session as long as its token is
    const before = currentSession();
    if (before?.token !== session.token || !before.source) return;
    if (await hasEnded(before)) return endRefused(before);
    const { source } = before;
    const given = await oidc()
      .then(({ refresh }) => refresh(source))
      .catch((failure: unknown) => {
        failed = { token: session.token, time: Date.now() };
        throw failure;
      });
    const now = currentSession();
    if (now?.token !== session.token) return;
    if (given) shareSession({ ...now, token: given.token, ...timesOf(given), source: given.source });
    else endSession("expired");
  });
}

/**
 * Whether the API refuses a token before its time, as after a logout at the provider: a refresh token for offline access would
 * still be good, and what it gives is newer than the logout.
 */
async function hasEnded({ token, expires }: Session): Promise<boolean> {
  if (expires <= Date.now()) return false;
  const refusal: unknown = await whoIs(token).then(() => undefined, (error: unknown) => error);
  return refusal instanceof Problem && refusal.status === 401 && refusal.reason !== "CREDENTIAL_EXPIRED";
}

async function alone(work: () => Promise<void>): Promise<void> {
  // missing where a page has no secure address, and there is no sign-in either
  if (navigator.locks) await navigator.locks.request("gpuaas.renew", work);
  else await work();
}

/** Ends the session in all tabs, then at the provider. */
export async function signOut(): Promise<void> {
  const source = currentSession()?.source;
  const since = Date.now();
  endSession("signed_out");
  if (!source) return;
  try {
    await (await oidc()).leave(source, since);
  } catch {
    // here it has ended, whatever the provider says
  }
}
