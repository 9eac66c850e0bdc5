/** The token of an invitation between its link and the page that accepts it: signing in leads away from the page. */
const KEY = "gpuaas.invitation";
const PATH = "/join";

/** Takes the token out of the address at once, so that it stays in no history; called before anything else. */
export function keepInvitation(): void {
  if (location.pathname !== PATH) return;
  const token = decoded(location.hash.slice(1));
  if (!token) return;
  sessionStorage.setItem(KEY, token);
  history.replaceState(null, "", PATH);
}

/** A fragment that nobody has encoded stays as it is: the page has to come up whatever stands there. */
function decoded(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}

/** The token of the link that was opened last in this tab; empty without one. */
export function invitation(): string {
  return sessionStorage.getItem(KEY) ?? "";
}

export function forgetInvitation(): void {
  sessionStorage.removeItem(KEY);
}
