/** SSH keys by name: one's own, and those that a project shares. */
import { useState } from "react";
import { type SshKey, useAddKey, useDeleteKey, useOwnKeys, useProjectId, useProjectKeys } from "../../api/tenancy";
import { keyProblem } from "../../lib/ssh";
import { useProjectMay } from "../../session/roles";
import { Button, Card, Empty, Time } from "../../ui/basics";
import { Bulk, Chooser, useChosen } from "../../ui/bulk";
import { Confirm } from "../../ui/dialog";
import { Field } from "../../ui/form";
import { KeyRound, Plus } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { Page } from "../../ui/shell";
import { type Column, Table } from "../../ui/table";
import { TextField } from "../catalog/parts";
import { keyNameProblem, nameFrom } from "./names";

const COLUMNS: Column[] = ["Name", ["Fingerprint", "optional"], ["Added", "number"], ["Actions", "number"]];

function AddKey({ project, first = false }: { /** Empty: one's own. */ project: string; /** Is the way out of an empty page. */ first?: boolean }) {
  const add = useAddKey();
  const [name, setName] = useState("");
  const [key, setKey] = useState("");
  const line = key.trim();
  const wrong = line === "" ? undefined : keyProblem(line);
  const named = name || nameFrom(line);
  const run = async () => {
    await add.mutateAsync({ project_id: project, name: named, public_key: line });
    setName("");
    setKey("");
  };
  return (
    <Confirm
      trigger={
        <Button kind={first ? "primary" : "plain"} small={!first}>
          <Plus size={15} aria-hidden="true" /> Add a key
        </Button>
      }
      title={project ? "Add a key to the project" : "Add an SSH key"}
      action="Add"
      ready={line !== "" && !wrong && !keyNameProblem(named)}
      run={run}
    >
      <p>
        {project ? "All members of the project can launch with this key." : "Select the key by name when you launch."} Paste the public half, the file that ends in <code>.pub</code>.
      </p>
      <Field label="Public key" problem={wrong} hint="Create one with: ssh-keygen -t ed25519">
        {({ id, describedBy }) => <textarea id={id} aria-describedby={describedBy} className="mono" rows={3} spellCheck={false} placeholder="ssh-ed25519 AAAA… you@example.com" value={key} onChange={(event) => setKey(event.target.value)} />}
      </Field>
      <TextField label="Name" mono value={named} onChange={setName} problem={named === "" ? undefined : keyNameProblem(named)} />
    </Confirm>
  );
}

function Keys({ title, keys, project, empty, changes }: { title: string; keys: SshKey[]; project: string; empty: string; /** May add and delete. */ changes: boolean }) {
  const remove = useDeleteKey();
  const { chosen, choose, keep } = useChosen();
  const selected = keys.filter(({ id = "" }) => chosen.has(id));
  return (
    <Card title={title} aside={changes && keys.length > 0 && <AddKey project={project} />}>
      {keys.length === 0 ? (
        <Empty icon={<KeyRound size={28} />} title="No key yet" action={changes && <AddKey project={project} first />}>
          {empty}
        </Empty>
      ) : (
        <>
          {changes && (
            <Bulk
              label={`Selected of ${title.toLowerCase()}`}
              noun="key"
              selected={selected}
              chosen={chosen}
              keep={keep}
              id={({ id = "" }) => id}
              name={({ name = "" }) => name}
              after={() => undefined}
              actions={[{ word: "Delete", danger: true, open: selected, text: "New launches cannot use these keys. Existing allocations keep them.", run: (key) => remove.mutateAsync(key) }]}
            />
          )}
          <Table label={title} columns={COLUMNS}>
            {keys.map((key) => (
              <tr key={key.id}>
                <td>
                  {changes && (
                    <span className="row-before">
                      <Chooser name={key.name} checked={chosen.has(key.id ?? "")} choose={(on) => choose(key.id ?? "", on)} />
                    </span>
                  )}
                  <strong>{key.name}</strong>
                  <small className="muted block">{key.public_key?.split(" ")[0]}</small>
                </td>
                <td className="optional">
                  <code className="breaks">{key.fingerprint}</code>
                </td>
                <td className="number">
                  <Time value={key.create_time} />
                </td>
                <td className="number">
                  {!changes && <span className="muted">–</span>}
                  {changes && <Confirm
                    danger
                    trigger={
                      <Button small aria-label={`Delete ${key.name}`}>
                        Delete
                      </Button>
                    }
                    title={`Delete ${key.name}?`}
                    action="Delete"
                    run={() => remove.mutateAsync(key)}
                  >
                    New launches cannot use this key. Existing allocations keep it.
                  </Confirm>}
                </td>
              </tr>
            ))}
          </Table>
        </>
      )}
    </Card>
  );
}

export default function SshKeys() {
  const project = useProjectId();
  const own = useOwnKeys();
  const shared = useProjectKeys();
  const mayRead = useProjectMay("read", "read");
  const mayChange = useProjectMay("write", "manage");
  return (
    <Page title="SSH keys">
      <Loaded of={[own]} lines={4} label="Loading your keys">
        {(keys) => <Keys title="Your keys" keys={keys} project="" changes empty="Add your public key, and select it by name at each launch." />}
      </Loaded>
      {project && mayRead && (
        <Loaded of={[shared]} lines={4} label="Loading the keys of the project">
          {(keys) => <Keys title="Keys of the project" keys={keys} project={project} changes={mayChange} empty="Keys for all members of the project, such as the key of a deployment." />}
        </Loaded>
      )}
    </Page>
  );
}
