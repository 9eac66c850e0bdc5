/** Parts of the catalog's forms. */
import type { ReactNode } from "react";
import { Field } from "../../ui/form";

const SLUG = /^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$/;

/** What is wrong with a code or slug that was typed. */
export function slugProblem(text: string): string | undefined {
  return text === "" || SLUG.test(text) ? undefined : "Lowercase letters, digits, dots and hyphens.";
}

export function isSlug(text: string): boolean {
  return SLUG.test(text);
}

/** A line of text with its label. */
export function TextField({ label, value, onChange, problem, hint, mono = false, placeholder, numeric = false, fixed = false }: { label: string; value: string; onChange: (value: string) => void; problem?: string | undefined; hint?: ReactNode; mono?: boolean; placeholder?: string; numeric?: boolean; /** Cannot be changed. */ fixed?: boolean }) {
  return (
    <Field label={label} problem={problem} hint={hint}>
      {({ id, describedBy }) => (
        <input
          id={id}
          aria-describedby={describedBy}
          aria-invalid={!!problem}
          className={mono ? "mono" : ""}
          placeholder={placeholder}
          inputMode={numeric ? "numeric" : undefined}
          value={value}
          readOnly={fixed}
          spellCheck={false}
          autoComplete="off"
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

export function SelectField<T extends string>({ label, value, onChange, options, hint }: { label: string; value: T; onChange: (value: T) => void; options: [T, string][]; hint?: ReactNode }) {
  return (
    <Field label={label} hint={hint}>
      {({ id, describedBy }) => (
        <select id={id} aria-describedby={describedBy} value={value} onChange={(event) => onChange(event.target.value as T)}>
          {options.map(([key, text]) => (
            <option key={key} value={key}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** A limit as typed: none when nothing is typed. */
export function limitOf(text: string): { limit?: number; problem?: string } {
  if (text.trim() === "") return {};
  const limit = countOf(text);
  return limit ? { limit } : { problem: "Enter a whole number, or nothing." };
}

/** What a VM may send and receive, for people. */
export function bandwidthText({ network_mbps }: { network_mbps?: number }): string | undefined {
  if (!network_mbps) return undefined;
  return network_mbps % 1000 === 0 ? `${network_mbps / 1000} Gbit/s` : `${network_mbps} Mbit/s`;
}

/** A whole number from 1 on, as typed; nothing for anything else. */
export function countOf(text: string, least = 1): number | undefined {
  const count = Number(text);
  return /^\d{1,9}$/.test(text.trim()) && count >= least ? count : undefined;
}

/** "1, 2, 4" as numbers, ascending and without repetition; nothing when one is none. */
export function countsOf(text: string): number[] | undefined {
  const parts = text.split(/[\s,]+/).filter(Boolean);
  const counts = parts.map((part) => countOf(part));
  if (counts.length === 0 || counts.some((count) => count === undefined)) return undefined;
  return [...new Set(counts as number[])].sort((a, b) => a - b);
}
