/** State of a view that its address carries, so that a reload, a bookmark and a sent link show the same. */
import { useSearchParams } from "wouter";

/** One parameter of the address and how to change it; the value `initial` is left out of the address. */
export function useQueryState(key: string, initial = ""): [string, (value: string) => void] {
  const [params, setParams] = useSearchParams();
  const change = (value: string) =>
    setParams((before) => withParam(before, key, value === initial ? "" : value), { replace: true });
  return [params.get(key) ?? initial, change];
}

/** The same of a switch. */
export function useQuerySwitch(key: string): [boolean, (on: boolean) => void] {
  const [value, change] = useQueryState(key);
  return [value === "1", (on) => change(on ? "1" : "")];
}

/** Leaves several parameters out at once: two changes by hooks of their own would each undo the other. */
export function useQueryReset(keys: string[]): () => void {
  const [, setParams] = useSearchParams();
  return () => setParams((before) => keys.reduce((params, key) => withParam(params, key, ""), before), { replace: true });
}

/** Parameters with one of them changed; an empty value is left out. */
export function withParam(before: URLSearchParams, key: string, value: string): URLSearchParams {
  const next = new URLSearchParams(before);
  if (value) next.set(key, value);
  else next.delete(key);
  return next;
}

/** The tab that is shown: the `wanted` one where there is such a one, as in an address that was typed, otherwise the first. */
export function tabOf(wanted: string, tabs: string[]): string {
  return tabs.includes(wanted) ? wanted : (tabs[0] ?? "");
}

/** The tab that the address names, of those that there are. */
export function useTab(tabs: string[]): [string, (tab: string) => void] {
  const [wanted, choose] = useQueryState("tab", tabs[0]);
  return [tabOf(wanted, tabs), choose];
}
