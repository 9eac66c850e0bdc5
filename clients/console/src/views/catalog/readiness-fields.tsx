/** The fields of an image's readiness checks. */
import { Button } from "../../ui/basics";
import { Plus, Trash2 } from "../../ui/icons";
import { TextField } from "./parts";
import { MAX_CHECKS, NO_CHECK, type TypedCheck, checkProblem, checksProblem } from "./readiness";

export function ReadinessFields({ checks, onChange }: { checks: TypedCheck[]; onChange: (checks: TypedCheck[]) => void }) {
  const set = (index: number, part: Partial<TypedCheck>) => onChange(checks.map((one, at) => (at === index ? { ...one, ...part } : one)));
  const all = checksProblem(checks);
  return (
    <fieldset className="checks">
      <legend>Readiness checks</legend>
      <p className="muted">Commands that must succeed in a VM, in this order, before the VM is active. Checks cannot be changed; add a new image instead.</p>
      {checks.map((check, index) => {
        const wrong = checkProblem(checks, index);
        // an empty field is no mistake yet
        const problem = (field: "name" | "command" | "timeout") => (wrong?.field === field && check[field] !== "" ? wrong.text : undefined);
        return (
          <fieldset key={index} className="readiness-check">
            <legend>Check {index + 1}</legend>
            <TextField label="Name" mono value={check.name} onChange={(name) => set(index, { name })} problem={problem("name")} placeholder="gpus" />
            <TextField label="Command" mono value={check.command} onChange={(command) => set(index, { command })} problem={problem("command")} placeholder="nvidia-smi -L" />
            <TextField label="Expected text" value={check.expected} onChange={(expected) => set(index, { expected })} hint="A line of the output must contain this text. Empty: any output." />
            <label className="check">
              <input type="checkbox" checked={check.perGpu} onChange={(event) => set(index, { perGpu: event.target.checked })} /> <span>Once per GPU</span>
            </label>
            <TextField label="Timeout (s)" numeric value={check.timeout} onChange={(timeout) => set(index, { timeout })} problem={problem("timeout")} placeholder="60" />
            <Button small onClick={() => onChange(checks.filter((_, at) => at !== index))}>
              <Trash2 size={14} aria-hidden="true" /> Remove check {index + 1}
            </Button>
          </fieldset>
        );
      })}
      {all && <p role="alert">{all}</p>}
      {checks.length < MAX_CHECKS && (
        <Button small onClick={() => onChange([...checks, NO_CHECK])}>
          <Plus size={14} aria-hidden="true" /> Add a check
        </Button>
      )}
    </fieldset>
  );
}
