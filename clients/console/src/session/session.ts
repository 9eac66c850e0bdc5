/** Who is signed in. The token lives in this tab only and is gone with it. */
import { useSyncExternalStore } from "react";

export interface Project {
  id: string;
  slug: string;
}

export interface Session {
  token: string;
  /** Name of the principal; empty when only a token is known. */
  principal: string;
  /** Unknown for a token that was pasted in. */
  admin: boolean | undefined;
  projects: Project[];
  /** The project that is looked at; empty: the only one. */
  project: string;
  /** Milliseconds since the epoch. */
  expires: number;
  /** Signed in with the embedded issuer, so the token can be renewed. */
  renewable: boolean;
}

export type EndReason = "signed_out" | "expired";

const STORAGE_KEY = "gpuaas.session";
const listeners = new Set<() => void>();
let session: Session | undefined = read();
let ended: EndReason | undefined;

function read(): Session | undefined {
  try {
    const text = sessionStorage.getItem(STORAGE_KEY);
    const stored = text ? (JSON.parse(text) as Session) : undefined;
    return stored && stored.expires > Date.now() ? stored : undefined;
  } catch {
    return undefined;
  }
}

function change(next: Session | undefined): void {
  session = next;
  try {
    if (next) sessionStorage.setItem(STORAGE_KEY, JSON.stringify(next));
    else sessionStorage.removeItem(STORAGE_KEY);
  } catch {
    // without storage the session ends with the page
  }
  for (const listener of listeners) listener();
}

export function currentSession(): Session | undefined {
  return session;
}

export function beginSession(next: Session): void {
  ended = undefined;
  change(next);
}

export function chooseProject(project: string): void {
  if (session) change({ ...session, project });
}

export function endSession(reason: EndReason): void {
  if (!session) return;
  ended = reason;
  change(undefined);
}

/** Why the last session ended. */
export function endedBecause(): EndReason | undefined {
  return ended;
}

export function useSession(): Session | undefined {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => session,
    () => session,
  );
}

/** Expiry and subject of a JWT, unverified: only to show them and to renew in time. */
export function readToken(token: string): { expires: number; subject: string } | undefined {
  try {
    const part = token.split(".")[1] ?? "";
    const text = atob(part.replaceAll("-", "+").replaceAll("_", "/"));
    const claims = JSON.parse(text) as { exp?: unknown; sub?: unknown };
    if (typeof claims.exp !== "number") return undefined;
    return { expires: claims.exp * 1000, subject: typeof claims.sub === "string" ? claims.sub : "" };
  } catch {
    return undefined;
  }
}
