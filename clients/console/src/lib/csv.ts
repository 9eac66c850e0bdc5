/** Tables as CSV files, for spreadsheets. */

/** What a spreadsheet would run as a formula. */
const FORMULA = /^[=+\-@\t\r]/;
const NUMBER = /^-?\d+(\.\d+)?$/;

function cell(value: string): string {
  const safe = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Lines end as RFC 4180 has them. */
export function csvOf(header: string[], rows: string[][]): string {
  return [header, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

/** Hands a text to the reader as a file. */
export function download(name: string, text: string, type = "text/csv"): void {
  saveFile(name, new Blob([text], { type: `${type};charset=utf-8` }));
}

/** Hands bytes to the reader as a file. */
export function saveFile(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}
