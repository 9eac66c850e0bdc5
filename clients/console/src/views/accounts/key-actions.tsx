/** The state of an API key, its rotation and its end. */
import { type ApiKey, type ServiceAccount, useKeyVerb } from "../../api/accounts";
import type { Guardrails } from "../../api/guardrails";
import { forbidden } from "../../lib/forbidden";
import { plural, sentence } from "../../lib/text";
import { Badge, Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { keyWord, rotatedEnd } from "./rules";

export function KeyState({ api_key }: { api_key: ApiKey }) {
  const word = keyWord(api_key, Date.now());
  return <Badge tone={word === "active" ? "good" : "idle"}>{sentence(word)}</Badge>;
}

/** A key of a disabled account is not rotated: the new one would not work. */
export function KeyActions({ account, disabled, api_key: key, made, bounds }: { account: ServiceAccount; disabled: boolean; api_key: ApiKey; made: (key: ApiKey) => void; bounds: Guardrails }) {
  const verb = useKeyVerb(account);
  const most = bounds.max_api_key_days ?? 0;
  const end = rotatedEnd(key, most, Date.now());
  return (
    <span className="page-actions">
      {!disabled && !forbidden(bounds, "api_keys_disabled") && (
        <Confirm trigger={<Button small aria-label={`Rotate ${key.display_name}`}>Rotate</Button>} title={`Rotate ${key.display_name || "the key"}?`} action="Rotate" run={async () => made(await verb.mutateAsync({ verb: "rotate", key, expire_time: end }))}>
          You get a new key with the same scopes. The old one stays valid for a day.
          {end && ` The new one expires after ${plural(most, "day")}: your organisation does not allow more.`}
        </Confirm>
      )}
      <Confirm danger trigger={<Button small aria-label={`Disable ${key.display_name}`}>Disable</Button>} title={`Disable ${key.display_name || "the key"}?`} action="Disable" run={() => verb.mutateAsync({ verb: "disable", key })}>
        The key and its tokens are refused within seconds. This is permanent.
      </Confirm>
    </span>
  );
}
