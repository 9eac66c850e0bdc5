/** Service accounts of a project and their API keys. */
import { useDeferredValue, useState } from "react";
import { type ApiKey, SCOPES, type Scope, type ServiceAccount, useAccountState, useApiKeys, useCreateAccount, useCreateKey, useKeyVerb, useServiceAccounts } from "../../api/accounts";
import { type Guardrails, useBounds } from "../../api/guardrails";
import type { MemberRole } from "../../api/tenancy";
import { forbidden } from "../../lib/forbidden";
import { plural } from "../../lib/text";
import { useProjectMay } from "../../session/roles";
import { Badge, Button, Card, Empty, Planned, Time } from "../../ui/basics";
import { Bulk, Chooser, useChosen } from "../../ui/bulk";
import { Confirm } from "../../ui/dialog";
import { SearchBox } from "../../ui/form";
import { Bot, Plus, Search } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { ShowMore } from "../../ui/show-more";
import { Table } from "../../ui/table";
import { useAsked } from "../../ui/use-asked";
import { SelectField, TextField, isSlug, slugProblem } from "../catalog/parts";
import { RoleField, Secret, roleWord } from "../project/parts";
import { KeyActions, KeyState } from "./key-actions";
import { expiryOf, keyWord, lifeOf, livesOf } from "./rules";

function NewAccount({ project }: { project: string }) {
  const create = useCreateAccount(project);
  const [slug, setSlug] = useState("");
  const [description, setDescription] = useState("");
  const [role, setRole] = useState<MemberRole>("member");
  const run = async () => {
    await create.mutateAsync({ slug, role, description: description.trim() });
    setSlug("");
    setDescription("");
  };
  return (
    <Confirm
      trigger={
        <Button kind="primary">
          <Plus size={15} aria-hidden="true" /> Add a service account
        </Button>
      }
      title="Add a service account"
      action="Add"
      ready={isSlug(slug)}
      run={run}
    >
      <p>A program that calls the API by its keys, such as a pipeline.</p>
      <TextField label="Slug" mono value={slug} onChange={setSlug} problem={slugProblem(slug)} placeholder="ci" />
      <TextField label="Description" value={description} onChange={setDescription} />
      <RoleField value={role} onChange={setRole} />
    </Confirm>
  );
}

function NewKey({ account, made, most }: { account: ServiceAccount; made: (key: ApiKey) => void; /** Days that the organisation allows; 0: any. */ most: number }) {
  const create = useCreateKey(account);
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<Scope[]>(["read"]);
  const [wanted, setDays] = useState("90");
  const lives = livesOf(most);
  const days = lifeOf(wanted, lives);
  const run = async () => {
    const expire_time = expiryOf(days, Date.now(), most);
    made(await create.mutateAsync({ display_name: name.trim(), scopes, days, ...(expire_time && { expire_time }) }));
    setName("");
  };
  return (
    <Confirm trigger={<Button small aria-label={`Add a key to ${account.slug}`}>Add a key</Button>} title={`Add a key to ${account.slug}`} action="Add" ready={scopes.length > 0} run={run}>
      <TextField label="Name" value={name} onChange={setName} />
      <fieldset className="checks">
        <legend>Scopes</legend>
        {SCOPES.map(([scope, word]) => (
          <label key={scope} className="check">
            <input type="checkbox" checked={scopes.includes(scope)} onChange={(event) => setScopes(event.target.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))} /> <span>{word}</span>
          </label>
        ))}
      </fieldset>
      <SelectField label="Expires" value={days} onChange={setDays} options={lives} hint={most > 0 && `Your organisation does not allow API keys that live longer than ${plural(most, "day")}.`} />
    </Confirm>
  );
}

function Keys({ account, made, bounds }: { account: ServiceAccount; made: (key: ApiKey) => void; bounds: Guardrails }) {
  const found = useApiKeys(account.project_id ?? "", account.id ?? "");
  const manages = useProjectMay("manage", "manage");
  const rotates = !forbidden(bounds, "api_keys_disabled");
  const verb = useKeyVerb(account);
  const { chosen, choose, keep } = useChosen();
  const isOpen = (key: ApiKey) => manages && keyWord(key, Date.now()) === "active";
  const selected = (found.data ?? []).filter((key) => isOpen(key) && chosen.has(key.id ?? ""));
  return (
    <Loaded of={[found]} lines={2} label="Loading API keys">
      {(keys) =>
        keys.length === 0 ? (
          <p className="muted">No key yet.{manages && rotates && " Add one, and give it to the program as its bearer token."}</p>
        ) : (
          <>
            <Bulk
              label={`Selected keys of ${account.slug}`}
              noun="key"
              selected={selected}
              chosen={chosen}
              keep={keep}
              id={({ id = "" }) => id}
              name={({ display_name, prefix = "" }) => display_name || prefix}
              after={() => undefined}
              actions={[{ word: "Disable", danger: true, open: selected, text: "The keys and their tokens are refused within seconds. This is permanent.", run: (key) => verb.mutateAsync({ verb: "disable", key }) }]}
            />
            <Table label={`API keys of ${account.slug}`} columns={["Key", "State", ["Scopes", "optional"], ["Last used", "optional"], ["Expires", "optional"], ["Actions", "number"]]}>
              {keys.map((key) => (
                <tr key={key.id}>
                  <td>
                    {isOpen(key) && (
                      <span className="row-before">
                        <Chooser name={key.display_name || key.prefix} checked={chosen.has(key.id ?? "")} choose={(on) => choose(key.id ?? "", on)} />
                      </span>
                    )}
                    <strong>{key.display_name || "–"}</strong>
                    <code className="block breaks">{key.prefix}</code>
                  </td>
                  <td>
                    <KeyState api_key={key} />
                  </td>
                  <td className="optional">{key.scopes?.join(", ")}</td>
                  <td className="optional tight">{key.last_used_time ? <Time value={key.last_used_time} /> : "Never"}</td>
                  <td className="optional tight">{key.expire_time ? <Planned value={key.expire_time} short /> : "Never"}</td>
                  <td className="number">
                    {isOpen(key) && <KeyActions account={account} disabled={account.disable_time !== undefined} api_key={key} made={made} bounds={bounds} />}
                  </td>
                </tr>
              ))}
            </Table>
            <ShowMore of={found} noun="key" />
          </>
        )
      }
    </Loaded>
  );
}

export function Toggle({ account }: { account: ServiceAccount }) {
  const [asked, askAnew] = useAsked(account);
  const change = useAccountState(asked);
  const offered = account.disable_time ? "Enable" : "Disable";
  const action = asked.disable_time ? "Enable" : "Disable";
  return (
    <Confirm trigger={<Button small aria-label={`${offered} ${account.slug}`}>{offered}</Button>} title={`${action} ${account.slug}?`} action={action} reset={askAnew} run={() => change.mutateAsync(action === "Enable" ? "enable" : "disable")}>
      {action === "Enable" ? "Its keys are valid again, except keys that are disabled individually." : "All of its keys and tokens are refused within seconds, and its terminals end."}
    </Confirm>
  );
}

function Account({ account, made, bounds }: { account: ServiceAccount; made: (key: ApiKey) => void; bounds: Guardrails }) {
  const change = useAccountState(account);
  const manages = useProjectMay("manage", "manage");
  const disabled = !!account.disable_time;
  return (
    <Card
      title={
        <>
          {account.slug} {disabled && <Badge tone="idle">Disabled</Badge>}
        </>
      }
      aside={
        manages && <span className="page-actions">
          {!disabled && !forbidden(bounds, "api_keys_disabled") && <NewKey account={account} made={made} most={bounds.max_api_key_days ?? 0} />}
          <Toggle account={account} />
          <Confirm danger trigger={<Button small aria-label={`Delete ${account.slug}`}>Delete</Button>} title={`Delete ${account.slug}?`} action="Delete" run={() => change.mutateAsync("delete")}>
            Its keys stop working. This is permanent. Its allocations continue and are billed.
          </Confirm>
        </span>
      }
    >
      <p className="muted">
        {roleWord(account.role)}. {account.description}
        <code className="block breaks">{account.principal}</code>
      </p>
      <Keys account={account} made={made} bounds={bounds} />
    </Card>
  );
}

export function ServiceAccounts({ project }: { project: string }) {
  const [made, setMade] = useState<ApiKey>();
  const [search, setSearch] = useState("");
  const asked = useDeferredValue(search);
  const found = useServiceAccounts(project, asked);
  // what was found may be of an older search than the one that is typed
  const none = found.data?.length === 0 && search.trim() === "" && asked.trim() === "";
  const manages = useProjectMay("manage", "manage");
  const bounds = useBounds({ project_id: project });
  const refused = forbidden(bounds.data, "api_keys_disabled");
  return (
    <>
      {refused && <p className="notice">{refused} Calls with API keys are refused, except SCIM.</p>}
      {made?.key && (
        <Secret title="Your new API key" label="API key" text={made.key} close={() => setMade(undefined)}>
          <p>
            <strong>It is shown once.</strong> Keep it where only the program can read it.
          </p>
        </Secret>
      )}
      {!none && (
        <>
          {manages && (found.data || search !== "" || asked !== "") && (
            <div className="tab-actions">
              <NewAccount project={project} />
            </div>
          )}
          <div className="filters" role="search" aria-label="Service accounts">
            <SearchBox label="Search by slug, name or description" placeholder="Slug, name or description" value={search} onChange={setSearch} />
          </div>
        </>
      )}
      <Loaded of={[found, bounds]} lines={4} label="Loading service accounts">
        {(accounts, guardrails) =>
          accounts.length === 0 && !none ? (
            <Empty icon={<Search size={28} />} title="No service account matches" action={<Button onClick={() => setSearch("")}>Clear the search</Button>}>
              Search for a part of a slug, name or description.
            </Empty>
          ) : accounts.length === 0 ? (
            <Empty icon={<Bot size={28} />} title="No service accounts" action={manages && <NewAccount project={project} />}>
              A program, such as a pipeline, calls the API with the keys of a service account. {manages ? "Add one, then add a key to it." : "Owners add them."}
            </Empty>
          ) : (
            <>
              {accounts.map((account) => (
                <Account key={account.id} account={account} made={setMade} bounds={guardrails} />
              ))}
              <ShowMore of={found} noun="service account" />
            </>
          )
        }
      </Loaded>
    </>
  );
}
