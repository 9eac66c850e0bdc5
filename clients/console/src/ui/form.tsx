/** Parts of forms: labelled fields, choices, and switches between a few words. */
import { type ReactNode, useId } from "react";
import { MOST_SEARCHED } from "../api/pages";
import { Search } from "./icons";

export function Choice({ name, value, checked, disabled = false, onChoose, children }: { name: string; value: string; checked: boolean; disabled?: boolean; onChoose: () => void; children: ReactNode }) {
  return (
    <label className="choice">
      <input type="radio" name={name} value={value} checked={checked} disabled={disabled} onChange={onChoose} />
      <span className="choice-body">{children}</span>
    </label>
  );
}

export function Field({ label, problem, hint, children }: { label: string; problem?: string | undefined; hint?: ReactNode; children: (ids: { id: string; describedBy: string }) => ReactNode }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, describedBy: `${id}-note` })}
      <p id={`${id}-note`} className={problem ? "field-problem" : "field-hint"}>
        {problem ?? hint}
      </p>
    </div>
  );
}

/** A search of a list. It takes no more than the API does, and says so where more may have been typed. */
export function SearchBox({ label, placeholder, value, onChange }: { label: string; placeholder: string; value: string; onChange: (value: string) => void }) {
  return (
    <>
      <span className="search">
        <Search size={15} aria-hidden="true" />
        <input type="search" aria-label={label} placeholder={placeholder} value={value} maxLength={MOST_SEARCHED} onChange={(event) => onChange(event.target.value)} />
      </span>
      {value.length >= MOST_SEARCHED && (
        <small className="search-limit muted" role="status">
          A search has at most {MOST_SEARCHED} characters. What is beyond them is cut off.
        </small>
      )}
    </>
  );
}

/** One of a few words. */
export function Segments<T extends string | number>({ label, options, value, onChoose }: { label: string; options: { value: T; label: string }[]; value: T; onChoose: (value: T) => void }) {
  const name = useId();
  return (
    <div className="segments" role="radiogroup" aria-label={label}>
      {options.map((option) => (
        <label key={option.value}>
          <input type="radio" name={name} checked={option.value === value} onChange={() => onChoose(option.value)} />
          <span>{option.label}</span>
        </label>
      ))}
    </div>
  );
}

/** One of many, with its label in front. */
export function Select<T extends string | number>({ label, options, value, onChoose }: { label: string; options: { value: T; label: string }[]; value: T; onChoose: (value: T) => void }) {
  const id = useId();
  return (
    <span className="select">
      <label htmlFor={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChoose(options[event.target.selectedIndex]?.value ?? value)}>
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
    </span>
  );
}
