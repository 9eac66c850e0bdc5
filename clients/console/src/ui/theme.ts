/** Light, dark, or as the system has it. `public/theme.js` applies the choice before the first paint. */
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const KEY = "gpuaas.theme";
const listeners = new Set<() => void>();
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", notify);

function notify() {
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function chosenTheme(): Theme {
  const chosen = document.documentElement.dataset["theme"];
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

export function chooseTheme(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  try {
    if (theme === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // without storage the choice lasts as long as the page
  }
  notify();
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, chosenTheme);
}

export function useIsDark(): boolean {
  return useSyncExternalStore(subscribe, () => (chosenTheme() === "system" ? dark.matches : chosenTheme() === "dark"));
}

/** A colour of the style sheet, resolved for what draws by itself. */
export function colour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const resolved = getComputedStyle(probe).color;
  probe.remove();
  return resolved;
}
