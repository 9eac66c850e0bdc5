/** A drawing of the node: memory domains, GPUs, disks, NICs and their functions, by the slots that have them. */
import { type KeyboardEvent, useState } from "react";
import { useDiscovery } from "../../api/queries";
import type { Slot } from "../../api/types";
import { Card, Facts, type Tone } from "../../ui/basics";
import { type Column, type Device, type Domain, type Nic, deviceText, drawingOf } from "./drawing";
import { addressesOf, hostOf } from "./host";

/** Units of the drawing, which is as wide as a phone shows without scaling it down. */
const WIDTH = 344;
const PER_ROW = 4;
const CELL = WIDTH / PER_ROW;
const GAP = 6;
const LABEL = 20;
const HEIGHTS: Record<Device["kind"], number> = { gpu: 44, disk: 38, vf: 24, nic: 24 };
const DOT = 20;
const DOTS_PER_ROW = 14;

interface Placed {
  device: Device;
  x: number;
  y: number;
  width: number;
  height: number;
}

interface Label {
  column: Column;
  x: number;
  y: number;
  height: number;
}

/** Where everything stands; heights add up from the top. */
export function layout({ columns, rest, nics }: Pick<Domain, "columns" | "rest" | "nics">): { placed: Placed[]; labels: Label[]; height: number } {
  const placed: Placed[] = [];
  const labels: Label[] = [];
  let top = 0;
  for (let first = 0; first < columns.length; first += PER_ROW) {
    const row = columns.slice(first, first + PER_ROW);
    const heightOf = ({ devices }: Column) => LABEL + devices.reduce((sum, { kind }) => sum + GAP + HEIGHTS[kind], 0);
    row.forEach((column, at) => {
      const x = at * CELL;
      labels.push({ column, x, y: top, height: heightOf(column) });
      let y = top + LABEL;
      for (const device of column.devices) {
        y += GAP;
        placed.push({ device, x: x + 4, y, width: CELL - 8, height: HEIGHTS[device.kind] });
        y += HEIGHTS[device.kind];
      }
    });
    top += Math.max(0, ...row.map(heightOf)) + 14;
  }
  rest.forEach((device, index) => {
    placed.push({ device, x: (index % PER_ROW) * CELL + 4, y: top + Math.floor(index / PER_ROW) * (38 + GAP), width: CELL - 8, height: 38 });
  });
  if (rest.length > 0) top += Math.ceil(rest.length / PER_ROW) * (38 + GAP) + 8;
  for (const { device, functions } of nics) {
    placed.push({ device, x: 4, y: top, width: WIDTH - 8, height: HEIGHTS.nic });
    top += HEIGHTS.nic + GAP;
    functions.forEach((own, index) => {
      placed.push({ device: own, x: 4 + (index % DOTS_PER_ROW) * (DOT + 4), y: top + Math.floor(index / DOTS_PER_ROW) * (DOT + 4), width: DOT, height: DOT });
    });
    if (functions.length > 0) top += Math.ceil(functions.length / DOTS_PER_ROW) * (DOT + 4) + 6;
  }
  return { placed, labels, height: top };
}

function Shape({ placed: { device, x, y, width, height }, chosen, isStop, choose, onKey }: { placed: Placed; chosen: boolean; isStop: boolean; choose: () => void; onKey: (event: KeyboardEvent) => void }) {
  const isDot = width === DOT;
  const inline = device.kind === "nic" || device.kind === "vf";
  return (
    <g
      role="option"
      aria-selected={chosen}
      aria-label={deviceText(device)}
      tabIndex={isStop ? 0 : -1}
      className={`device ${device.tone} ${device.hollow ? "hollow" : ""}`}
      transform={`translate(${x} ${y})`}
      onClick={choose}
      onFocus={choose}
      onMouseEnter={choose}
      onKeyDown={onKey}
    >
      <rect width={width} height={height} rx={isDot ? 4 : 6} />
      {isDot && (
        <text x={width / 2} y={14} textAnchor="middle">
          {device.slot ?? ""}
        </text>
      )}
      {!isDot && inline && (
        <text x={6} y={16}>
          <tspan className="name">{device.name}</tspan> <tspan>{device.detail}</tspan>
        </text>
      )}
      {!isDot && !inline && (
        <>
          <text>
            <tspan x={8} y={height / 2 - 3} className="name">
              {device.name}
            </tspan>{" "}
            <tspan x={8} y={height / 2 + 11}>
              {device.detail}
            </tspan>
          </text>
        </>
      )}
    </g>
  );
}

export function DomainDrawing({ domain, chosen, choose }: { domain: Domain; chosen: Device | undefined; choose: (device: Device) => void }) {
  const { placed, labels, height } = layout(domain);
  const keys = placed.map(({ device }) => device.key);
  const stop = chosen && keys.includes(chosen.key) ? chosen.key : keys[0];
  const onKey = (index: number) => (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = event.currentTarget.parentElement?.querySelectorAll<SVGGElement>("[role=option]");
    all?.[Math.max(0, Math.min(placed.length - 1, index + step))]?.focus();
  };
  return (
    <section className="domain" aria-label={domain.title}>
      <h3>{domain.title}</h3>
      {domain.note && <p className="muted">{domain.note}</p>}
      {placed.length === 0 ? (
        <p className="muted">No GPU, disk or NIC here.</p>
      ) : (
        <svg viewBox={`0 0 ${WIDTH} ${height}`} role="listbox" aria-label={`Devices of ${domain.title}`}>
          {labels.map(({ column, x, y, height: tall }) => (
            <g key={column.index} aria-hidden="true" className={`device-column ${column.tone} ${column.hollow ? "hollow" : ""}`}>
              <line x1={x + CELL / 2} x2={x + CELL / 2} y1={y + LABEL} y2={y + tall} />
              <text x={x + 8} y={y + 14}>
                Slot {column.index}
              </text>
            </g>
          ))}
          {placed.map((one, index) => (
            <Shape key={one.device.key} placed={one} chosen={chosen?.key === one.device.key} isStop={one.device.key === stop} choose={() => choose(one.device)} onKey={onKey(index)} />
          ))}
        </svg>
      )}
    </section>
  );
}

/** Colour and word of each kind of slot that is drawn. */
function legendOf(domains: Domain[]): [string, Tone, boolean][] {
  const words = new Map<string, [string, Tone, boolean]>();
  for (const { word, tone, hollow } of domains.flatMap(({ columns }) => columns)) words.set(word, [word, tone, hollow]);
  return [...words.values()];
}

const devicesOf = ({ columns, rest, nics }: Domain): Device[] => [...columns.flatMap(({ devices }) => devices), ...rest, ...nics.flatMap(({ device, functions }: Nic) => [device, ...functions])];

export function Hardware({ nodeId, slots }: { nodeId: string; slots: Slot[] }) {
  const discovery = useDiscovery(nodeId).data;
  const [key, setKey] = useState<string>();
  const host = hostOf(discovery);
  const addresses = addressesOf(host);
  const domains = drawingOf(slots, discovery, host);
  const all = domains.flatMap(devicesOf);
  const chosen = all.find((device) => device.key === key);
  // of nothing that is known there is nothing to draw, and the slots below say what to do
  if (all.length === 0) return null;
  return (
    <Card title="Hardware" className="hardware" aside={<span className="muted">{host?.machine?.model}</span>}>
      <div className="domains">
        {domains.map((domain) => (
          <DomainDrawing key={domain.title} domain={domain} chosen={chosen} choose={(device) => setKey(device.key)} />
        ))}
      </div>
      <ul className="legend" aria-label="Colours of the slots">
        {legendOf(domains).map(([word, tone, hollow]) => (
          <li key={word}>
            <span className={`swatch ${tone} ${hollow ? "hollow" : ""}`} aria-hidden="true" /> {word}
          </li>
        ))}
        {domains.some(({ rest, nics }) => rest.length + nics.length > 0) && (
          <li>
            <span className="swatch idle hollow" aria-hidden="true" /> In no slot
          </li>
        )}
      </ul>
      <div className="device-identity" role="status">
        {chosen ? (
          <>
            <strong>{deviceText(chosen)}</strong>
            <Facts rows={chosen.facts.map(([name, value]) => [name, <code>{value}</code>])} />
          </>
        ) : (
          <p className="muted">Point at a device, tap it or move to it with the arrow keys to see its identity.</p>
        )}
      </div>
      {addresses.length > 0 && <Facts rows={addresses.map(([name, value]) => [name, <code>{value}</code>])} />}
      {host?.unreadable?.map((text) => (
        <p key={text} className="blocker">
          {text}
        </p>
      ))}
    </Card>
  );
}
