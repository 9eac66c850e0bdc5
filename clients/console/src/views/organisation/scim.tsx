/** Provisioning by SCIM: the issuer of an organisation's people, and the keys that their identity provider calls with. */
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import type { ApiKey } from "../../api/accounts";
import { type Guardrails, useBounds } from "../../api/guardrails";
import { type ScimSettings, settingsKey, useMakeScimKey, usePutScimSettings, useProjectsOf, useScimKeys, useScimSettings } from "../../api/scim";
import { forbidden } from "../../lib/forbidden";
import { Button, Card, CopyButton, Empty, Facts, Planned, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Select } from "../../ui/form";
import { KeyRound, Plus } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { TableCard } from "../../ui/table";
import { useQueryState } from "../../ui/use-query-state";
import { KeyActions, KeyState } from "../accounts/key-actions";
import { expiryOf, keyWord, lifeOf, livesOf } from "../accounts/rules";
import { SelectField, TextField } from "../catalog/parts";
import { Secret } from "../project/parts";
import { type Draft, SUBJECTS, draftOf, inOrder, isChanged, issuerProblem, lastCall, settingsOf } from "./scim-rules";

function Fields({ organisation, draft, change }: { organisation: string; draft: Draft | undefined; change: (draft: Draft) => void }) {
  return (
    <Loaded of={[useScimSettings(organisation)]} lines={3} label="Loading the settings of SCIM">
      {(settings) => {
        const shown = draft ?? draftOf(settings);
        return (
          <>
            {Number(settings.user_count ?? 0) > 0 && <p>There are {settings.user_count} people: the issuer and the subject stay as long as there are any.</p>}
            <TextField label="Issuer" mono value={shown.issuer} onChange={(issuer) => change({ ...shown, issuer })} problem={issuerProblem(shown.issuer)} placeholder="https://login.example.com" hint="Exactly as in the tokens. The gateway must trust it." />
            <SelectField label="Subject of the tokens" value={shown.subject} onChange={(subject) => change({ ...shown, subject })} options={SUBJECTS} hint="The attribute that the issuer names people by." />
          </>
        );
      }}
    </Loaded>
  );
}

/** Says who says who somebody is, so that administrators of the platform alone do it. */
export function SetScim({ organisation, name }: { organisation: string; name: string | undefined }) {
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
        <Button small aria-label={`Set up SCIM of ${name}`}>
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
            <p className="muted">SCIM is not set up. An administrator of the platform has to set the issuer of its users first.</p>
          )}
        </Card>
      )}
    </Loaded>
  );
}

function MakeKey({ project, bounds, made }: { project: string; bounds: Guardrails; made: (key: ApiKey) => void }) {
  const make = useMakeScimKey(project);
  const [name, setName] = useState("SCIM");
  const [wanted, setDays] = useState("365");
  const most = bounds.max_api_key_days ?? 0;
  const lives = livesOf(most);
  const days = lifeOf(wanted, lives);
  return (
    <Confirm
      trigger={
        <Button kind="primary">
          <Plus size={15} aria-hidden="true" /> Make a key
        </Button>
      }
      title="Make a key for SCIM"
      action="Make"
      run={async () => made(await make.mutateAsync({ display_name: name.trim(), expire_time: expiryOf(days, Date.now(), most) }))}
    >
      <p>
        It is a key of the service account <code>identity-provider</code> of the project, which is made where it is missing. It does nothing but SCIM.
      </p>
      <TextField label="Name" value={name} onChange={setName} />
      <SelectField label="Expires" value={days} onChange={setDays} options={lives} hint="Rotate it before: people stay as they are when the provider cannot call." />
    </Confirm>
  );
}

function Keys({ project, choice, bounds }: { project: string; choice: ReactNode; bounds: Guardrails }) {
  const [made, setMade] = useState<ApiKey>();
  const found = useScimKeys(project);
  const refused = forbidden(bounds, "api_keys_disabled");
  return (
    <>
      {made?.key && (
        <Secret title="The key for SCIM" label="API key" text={made.key} close={() => setMade(undefined)}>
          <p>
            <strong>It is shown once.</strong> Enter it at your identity provider as the bearer token.
          </p>
        </Secret>
      )}
      {refused && <p className="notice">{refused} Those for SCIM that there are still work.</p>}
      <Loaded of={[found]} lines={3} label="Loading keys for SCIM">
        {(keys) => {
          const now = Date.now();
          const last = lastCall(keys);
          const make = !refused && <MakeKey project={project} bounds={bounds} made={setMade} />;
          return (
            <>
              <div className="tab-actions">
                {choice}
                {keys.length > 0 && make}
              </div>
              {keys.length === 0 ? (
                <Empty icon={<KeyRound size={28} />} title="No key for SCIM in this project" action={make}>
                  The identity provider calls with an API key whose only scope is SCIM, of any project of the organisation.
                </Empty>
              ) : (
                <TableCard
                  label="Keys for SCIM"
                  columns={["Key", "State", "Last call", ["Expires", "optional"], ["Actions", "number"]]}
                  foot={
                    <span className="muted" role="status">
                      {last ? <>The identity provider called last <Time value={last} />.</> : "The identity provider has not called yet."}
                    </span>
                  }
                >
                  {inOrder(keys, now).map(({ account, key }) => (
                    <tr key={key.id}>
                      <td>
                        <strong>{key.display_name || "–"}</strong> <small className="muted">of {account.slug}</small>
                        <code className="block breaks">{key.prefix}…</code>
                      </td>
                      <td>
                        <KeyState api_key={key} />
                      </td>
                      <td>{key.last_used_time ? <Time value={key.last_used_time} /> : "Never"}</td>
                      <td className="optional">{key.expire_time ? <Planned value={key.expire_time} short /> : "Never"}</td>
                      <td className="number">{keyWord(key, now) === "active" ? <KeyActions account={account} api_key={key} made={setMade} bounds={bounds} /> : <span className="muted">–</span>}</td>
                    </tr>
                  ))}
                </TableCard>
              )}
            </>
          );
        }}
      </Loaded>
    </>
  );
}

/** For owners of the organisation: nobody else makes or rotates such a key. */
export function ScimKeys({ organisation }: { organisation: string }) {
  const [wanted, setProject] = useQueryState("keys-of");
  return (
    <Loaded of={[useProjectsOf(organisation), useBounds({ organisation_id: organisation })]} lines={3} label="Loading projects">
      {(all, bounds) => {
        const projects = all.filter(({ state }) => state !== "closed");
        const project = projects.find(({ id }) => id === wanted)?.id ?? projects[0]?.id ?? "";
        if (project === "") return <p className="muted">Keys for SCIM belong to a project. Add one in Projects first.</p>;
        const choice = projects.length > 1 && <Select label="Keys of" value={project} onChoose={setProject} options={projects.map(({ id = "", slug = "" }) => ({ value: id, label: slug }))} />;
        return <Keys key={project} project={project} choice={choice} bounds={bounds} />;
      }}
    </Loaded>
  );
}
