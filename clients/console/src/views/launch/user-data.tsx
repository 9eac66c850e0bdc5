/** User data of a launch, for the cloud-init of its VM. It may hold secrets: it is in no address and nothing stores it. */
import { Card } from "../../ui/basics";
import { Field } from "../../ui/form";

export const MAX_BYTES = 16384;

/** The broken rule; undefined when it may be sent. Empty text is none. */
export function userDataProblem(text: string): string | undefined {
  const size = new TextEncoder().encode(text).length;
  if (size > MAX_BYTES) return `Shorten it to ${MAX_BYTES} bytes; it has ${size}.`;
  if (text.includes("\0")) return "Remove the NUL characters.";
  if (text !== "" && !/^(#!|#cloud-config|#cloud-boothook|#include|#part-handler|## template:|Content-Type:|MIME-Version:)/.test(text)) return "Begin with #cloud-config, with #! and a script, or with the header of a MIME message.";
  return undefined;
}

export function UserData({ text, setText, isOffered, problem }: { text: string; setText: (text: string) => void; /** The SKU is one of VMs. */ isOffered: boolean; problem: string | undefined }) {
  return (
    <Card title="User data">
      <details open={text !== "" || undefined}>
        <summary>Advanced: run a script at the first boot</summary>
        <Field label="User data (optional)" problem={problem} hint={isOffered ? "For cloud-init: #cloud-config, or a script that begins with #!. Nobody can read it back here; every process in the VM can read it." : "Bare metal takes no user data."}>
          {({ id, describedBy }) => <textarea id={id} aria-describedby={describedBy} className="mono" rows={8} spellCheck={false} autoComplete="off" placeholder={"#cloud-config\npackages: [jq]"} disabled={!isOffered} value={text} aria-invalid={!!problem} onChange={(event) => setText(event.target.value)} />}
        </Field>
      </details>
    </Card>
  );
}
