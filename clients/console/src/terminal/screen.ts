/** The emulator and its colours, for terminals and replays alike. */
import { FitAddon } from "@xterm/addon-fit";
import { type ITerminalInitOnlyOptions, type ITerminalOptions, type ITheme, Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef } from "react";

const THEME: ITheme = {
  background: "#0d1117",
  foreground: "#e6edf3",
  cursor: "#3bd6a3",
  cursorAccent: "#0d1117",
  selectionBackground: "#2b4a5e",
  black: "#484f58",
  red: "#ff7b72",
  green: "#46d694",
  yellow: "#e3b341",
  blue: "#79b0ff",
  magenta: "#d2a8ff",
  cyan: "#56d4dd",
  white: "#c9d1d9",
  brightBlack: "#7d8794",
  brightRed: "#ffa198",
  brightGreen: "#7ee7b8",
  brightYellow: "#f0cc6a",
  brightBlue: "#a5cbff",
  brightMagenta: "#e2c5ff",
  brightCyan: "#8ae6ed",
  brightWhite: "#ffffff",
};

export interface Screen {
  terminal: Terminal;
  fit: FitAddon;
}

/** Makes an emulator in the element of the returned reference and hands it to `use`, whose answer cleans up. */
export function useScreen(options: ITerminalOptions & ITerminalInitOnlyOptions, use: (screen: Screen) => () => void) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const terminal = new Terminal({
      theme: THEME,
      fontFamily: '"JetBrains Mono", ui-monospace, monospace',
      fontSize: 13.5,
      lineHeight: 1.2,
      scrollback: 5000,
      ...options,
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    let clean: (() => void) | undefined;
    let gone = false;
    // cells are measured once, so the font must be there first
    void document.fonts.load('13.5px "JetBrains Mono"').finally(() => {
      if (gone) return;
      terminal.open(element);
      clean = use({ terminal, fit });
    });
    return () => {
      gone = true;
      clean?.();
      terminal.dispose();
    };
  }, []);
  return host;
}
