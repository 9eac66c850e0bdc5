/** Colours of the lines of a chart. */
const TONES = ["busy", "good", "warn", "bad"];

/** Of a line, by its place: a name of the style sheet's colours. */
export const toneOf = (index: number): string => TONES[index % TONES.length] ?? "busy";

/** Lines after the first of each colour are dashed. */
export const isDashed = (index: number): boolean => index >= TONES.length;
