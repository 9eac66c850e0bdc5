/** The public keys of a user's last launch, kept in this browser for this user alone. */
const KEY = "gpuaas.ssh-public-keys";

function keyOf(principal: string): string {
  return `${KEY}:${principal}`;
}

/** Nothing for an unknown user. */
export function rememberedKeys(principal: string): string {
  try {
    // older consoles kept one value for whoever used the browser
    localStorage.removeItem(KEY);
    return principal ? (localStorage.getItem(keyOf(principal)) ?? "") : "";
  } catch {
    return "";
  }
}

export function rememberKeys(principal: string, text: string): void {
  try {
    if (principal) localStorage.setItem(keyOf(principal), text);
  } catch {
    // then they are typed again
  }
}
