/** A sign-in under way, in the tab that began it: nobody can complete it elsewhere, and it is completed once. */
export interface Pending {
  issuer: string;
  clientId: string;
  parameters: Record<string, string>;
  state: string;
  nonce: string;
  verifier: string;
  /** Path and query of the page that was asked for. */
  returnTo: string;
}

const KEY = "gpuaas.sign-in";

export function keepPending(pending: Pending): void {
  sessionStorage.setItem(KEY, JSON.stringify(pending));
}

/** The page that the sign-in under way leads back to. */
export function pendingPath(): string {
  const text = sessionStorage.getItem(KEY);
  return ownPath(text ? (JSON.parse(text) as Pending).returnTo : "/");
}

export function takePending(): Pending | undefined {
  const text = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  if (!text) return undefined;
  const pending = JSON.parse(text) as Pending;
  return { ...pending, returnTo: ownPath(pending.returnTo) };
}

/** A path of the console; anything else is its home page. */
export function ownPath(path: string): string {
  const isOwn = /^\/(?![/\\])/.test(path) && !path.startsWith("/sign-in/");
  return isOwn ? path : "/";
}
