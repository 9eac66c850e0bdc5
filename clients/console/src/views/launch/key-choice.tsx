/** Kept SSH keys, picked by name. */
import { Link } from "wouter";
import type { SavedKey } from "./keys";

export function KeyChoice({ kept, names, choose }: { kept: SavedKey[]; /** Those that are picked. */ names: string[]; choose: (names: string[]) => void }) {
  if (kept.length === 0) {
    return (
      <p className="field-hint">
        Keep keys under <Link href="/keys">SSH keys</Link> to pick them here by name.
      </p>
    );
  }
  return (
    <fieldset className="checks key-names">
      <legend>SSH keys</legend>
      {kept.map(({ name, of }) => (
        <label key={name} className="check">
          <input type="checkbox" checked={names.includes(name)} onChange={(event) => choose(event.target.checked ? [...names, name] : names.filter((one) => one !== name))} />
          <span>
            {name} <small className="muted">{of}</small>
          </span>
        </label>
      ))}
    </fieldset>
  );
}
