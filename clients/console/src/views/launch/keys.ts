/** The public keys of the last launch, kept in this browser. */
const KEY = "gpuaas.ssh-public-keys";

export function rememberedKeys(): string {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

export function rememberKeys(text: string): void {
  try {
    localStorage.setItem(KEY, text);
  } catch {
    // then they are typed again
  }
}
