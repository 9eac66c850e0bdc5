/** Provisioning by SCIM: the issuer of an organisation's people, and the keys that their identity provider calls with. */
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import type { ApiKey } from "../../api/accounts";
import { type Guardrails, useBounds } from "../../api/guardrails";
import { type ScimKey, type ScimSettings, settingsKey, useMakeScimKey, usePutScimSettings, useProjectsOf, useScimKeys, useScimSettings } from "../../api/scim";
import type { TenantProject } from "../../api/tenancy";
import { forbidden } from "../../lib/forbidden";
import { Badge, Button, Card, CopyButton, Empty, Facts, Planned, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { KeyRound, Plus } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { type Column, TableCard } from "../../ui/table";
import { KeyActions, KeyState } from "../accounts/key-actions";
import { expiryOf, keyWord, lifeOf, livesOf } from "../accounts/rules";
import { SelectField, TextField } from "../catalog/parts";
import { Secret } from "../project/parts";
import { type Draft, SUBJECTS, draftOf, inOrder, isChanged, issuerProblem, lastCall, projectFor, settingsOf } from "./scim-rules";

function Fields({ organisation, draft, change }: { organisation: string; draft: Draft | undefined; change: (draft: Draft) => void }) {
  return (
    <Loaded of={[useScimSettings(organisation)]} lines={3} label="Loading the settings of SCIM">
      {(settings) => {
        const shown = draft ?? draftOf(settings);
        return (
          <>
            {Number(settings.user_count ?? 0) > 0 && <p>Issuer and subject cannot change while SCIM keeps people here. It keeps {settings.user_count} now.</p>}
            <TextField label="Issuer" mono value={shown.issuer} onChange={(issuer) => change({ ...shown, issuer })} problem={issuerProblem(shown.issuer)} placeholder="https://login.example.com" hint="Exactly as in the tokens. The gateway must trust it." />
            <SelectField label="Subject of the tokens" value={shown.subject} onChange={(subject) => change({ ...shown, subject })} options={SUBJECTS} hint="The SCIM attribute whose value is the subject (sub) of the tokens." />
          </>
        );
      }}
    </Loaded>
  );
}

/** Says who says who somebody is, so that administrators of the platform alone do it. */
export function SetScim({ organisation, name, small = true }: { organisation: string; name: string | undefined; small?: boolean }) {
  const queries = useQueryClient();
  const put = usePutScimSettings(organisation);
  const [draft, setDraft] = useState<Draft>();
  const read = () => queries.getQueryData<ScimSettings>(settingsKey(organisation)) ?? {};
  const run = async () => {
    if (draft) await put.mutateAsync(settingsOf(draft));
    setDraft(undefined);
  };
  return (
    <Confirm
      needs="manage"
      trigger={
        <Button small={small} aria-label={`Set up SCIM of ${name}`}>
          SCIM
        </Button>
      }
      title={`SCIM of ${name}`}
      action="Save"
      ready={draft !== undefined && isChanged(read(), draft)}
      reset={() => setDraft(undefined)}
      run={run}
    >
      <p>People whom the identity provider of the organisation sends are registered under this issuer.</p>
      <Fields organisation={organisation} draft={draft} change={setDraft} />
    </Confirm>
  );
}

export function ScimCard({ organisation, name }: { organisation: string; name: string | undefined }) {
  return (
    <Loaded of={[useScimSettings(organisation)]} lines={3} label="Loading the settings of SCIM">
      {({ issuer, subject_attribute, user_count, group_count, create_time, update_time }) => (
        <Card title="Provisioning by SCIM" aside={<SetScim organisation={organisation} name={name} />}>
          {issuer ? (
            <Facts
              rows={[
                ["Issuer", <code className="breaks">{issuer}</code>],
                ["Subject", draftOf({ subject_attribute }).subject === "external_id" ? "externalId" : "userName"],
                ["Address", <span className="id-line"><code>{`${location.origin}/scim/v2`}</code><CopyButton text={`${location.origin}/scim/v2`} label="Copy address" /></span>],
                ["People", String(user_count ?? 0)],
                ["Groups", String(group_count ?? 0)],
                ["Set up", <Time value={create_time} />],
                ["Changed", <Time value={update_time} />],
              ]}
            />
          ) : (
            <p className="muted">SCIM is not set up. An administrator of the platform first has to set the issuer of the organisation's people.</p>
          )}
        </Card>
      )}
    </Loaded>
  );
}

function MakeKey({ keys, projects, bounds, made }: { keys: ScimKey[]; projects: TenantProject[]; bounds: Guardrails; made: (key: ApiKey) => void }) {
  const [wanted, setProject] = useState("");
  const project = projectFor(keys, projects, wanted);
  const make = useMakeScimKey(project);
  const [name, setName] = useState("SCIM");
  const [life, setDays] = useState("365");
  const most = bounds.max_api_key_days ?? 0;
  const lives = livesOf(most);
  const days = lifeOf(life, lives);
  return (
    <Confirm
      trigger={
        <Button kind="primary">
          <Plus size={15} aria-hidden="true" /> Make a key
        </Button>
      }
      title="Make a key for SCIM"
      action="Make"
      run={async () => made(await make.mutateAsync({ display_name: name.trim(), days, expire_time: expiryOf(days, Date.now(), most) }))}
    >
      <p>
        The key belongs to the service account <code>identity-provider</code> of the project; the account is made if there is none. The key does nothing but SCIM.
      </p>
      <TextField label="Name" value={name} onChange={setName} />
      {projects.length > 1 && <SelectField label="Project" value={project} onChange={setProject} options={projects.map(({ id = "", slug = "" }): [string, string] => [id, slug])} hint="The key works for the whole organisation; its project does not matter." />}
      <SelectField label="Expires" value={days} onChange={setDays} options={lives} hint="Rotate the key before it expires: without a valid key, changes of people and groups do not arrive here." />
    </Confirm>
  );
}

function KeyRow({ of, actions }: { of: ScimKey; actions: ReactNode }) {
  const { api_key = {}, project, service_account, account_disabled } = of;
  return (
    <tr>
      <td>
        <strong>{api_key.display_name || "–"}</strong>
        <small className="block breaks muted">
          {project} / {service_account}
        </small>
        <code className="block breaks">{api_key.prefix}</code>
      </td>
      <td>{account_disabled && keyWord(api_key, Date.now()) === "active" ? <Badge tone="idle">Account disabled</Badge> : <KeyState api_key={api_key} />}</td>
      <td className="tight">{api_key.last_used_time ? <Time value={api_key.last_used_time} /> : "Never"}</td>
      <td className="optional tight">{api_key.expire_time ? <Planned value={api_key.expire_time} short /> : "Never"}</td>
      <td>
        <span className="breaks">{api_key.creator}</span> <small className="block muted"><Time value={api_key.create_time} /></small>
      </td>
      {actions !== undefined && <td className="number">{actions}</td>}
    </tr>
  );
}

/** The keys of all projects, for whoever reads them; only owners of the organisation make, rotate or disable one. */
export function ScimKeys({ organisation, owner }: { organisation: string; owner: boolean }) {
  const [made, setMade] = useState<ApiKey>();
  return (
    <>
      {made?.key && (
        <Secret title="The key for SCIM" label="API key" text={made.key} close={() => setMade(undefined)}>
          <p>
            <strong>It is shown once.</strong> Enter it at your identity provider as the bearer token.
          </p>
        </Secret>
      )}
      <Loaded of={[useScimKeys(organisation), useProjectsOf(organisation), useBounds({ organisation_id: organisation })]} lines={3} label="Loading keys for SCIM">
        {(keys, all, bounds) => {
          const now = Date.now();
          const last = lastCall(keys);
          const projects = all.filter(({ state }) => state !== "closed");
          const refused = owner && forbidden(bounds, "api_keys_disabled");
          const make = owner && !refused && projects.length > 0 && <MakeKey keys={keys} projects={projects} bounds={bounds} made={setMade} />;
          const actionsOf = (key: ScimKey) => {
            const { api_key = {}, project_id, account_disabled = false } = key;
            if (!owner) return undefined;
            if (keyWord(api_key, now) !== "active") return <span className="muted">–</span>;
            return <KeyActions account={{ project_id, id: api_key.service_account_id }} disabled={account_disabled} api_key={api_key} made={setMade} bounds={bounds} />;
          };
          return (
            <>
              {refused && <p className="notice">{refused} Existing SCIM keys still work.</p>}
              {keys.length === 0 ? (
                <Empty icon={<KeyRound size={28} />} title="No key for SCIM" action={make}>
                  The identity provider calls with an API key whose only scope is SCIM, of any project of the organisation.
                  {owner && projects.length === 0 && " Add a project in Projects first."}
                </Empty>
              ) : (
                <>
                  {make && <div className="tab-actions">{make}</div>}
                  <TableCard
                    label="Keys for SCIM"
                    columns={["Key", "State", "Last use", ["Expires", "optional"], "Made by", ...(owner ? [["Actions", "number"] as Column] : [])]}
                    foot={
                      <span className="muted" role="status">
                        {last ? <>The identity provider called last <Time value={last} />.</> : "The identity provider has not called yet."}
                      </span>
                    }
                  >
                    {inOrder(keys, now).map((key) => (
                      <KeyRow key={key.api_key?.id} of={key} actions={actionsOf(key)} />
                    ))}
                  </TableCard>
                </>
              )}
            </>
          );
        }}
      </Loaded>
    </>
  );
}
