/** A total in its parts: as a bar, and as text for those who do not see colours. */
import type { Tone } from "./basics";

export interface Part {
  label: string;
  value: number;
  tone: Tone;
  /** Drawn hollow, such as missing GPUs. */
  hollow?: boolean;
}

export function partsText(parts: Part[]): string {
  const shown = parts.filter(({ value }) => value > 0).map(({ label, value }) => `${value} ${label}`);
  return shown.length > 0 ? shown.join(", ") : "none";
}

export function Meter({ parts, label, legend = false }: { parts: Part[]; label: string; legend?: boolean }) {
  const shown = parts.filter(({ value }) => value > 0);
  return (
    <>
      <div className="meter" role="img" aria-label={`${label}: ${partsText(parts)}`}>
        {shown.map(({ label: word, value, tone, hollow }) => (
          <span key={word} className={`${tone} ${hollow ? "hollow" : ""}`} style={{ flexGrow: value }} title={`${value} ${word}`} />
        ))}
      </div>
      {legend && (
        <ul className="legend" aria-label={label}>
          {parts.map(({ label: word, value, tone, hollow }) => (
            <li key={word}>
              <span className={`swatch ${tone} ${hollow ? "hollow" : ""}`} aria-hidden="true" />
              <strong>{value}</strong> {word}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
