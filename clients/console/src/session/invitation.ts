/** The token of an invitation between its link and the page that accepts it: signing in leads away from the page. */
const KEY = "gpuaas.invitation";
const PATH = "/join";

/** Takes the token out of the address at once, so that it stays in no history; called before anything else. */
export function keepInvitation(): void {
  const token = decodeURIComponent(location.hash.slice(1));
  if (location.pathname !== PATH || !token) return;
  sessionStorage.setItem(KEY, token);
  history.replaceState(null, "", PATH);
}

/** The token of the link that was opened last in this tab; empty without one. */
export function invitation(): string {
  return sessionStorage.getItem(KEY) ?? "";
}

export function forgetInvitation(): void {
  sessionStorage.removeItem(KEY);
}
