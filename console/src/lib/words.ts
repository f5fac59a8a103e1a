// What an app and its tables do, in words: first the state, then its reason. Only what needs a person has a colour,
// and of several tables that stand still for one cause only the cause has it.

import type { AppStatus, TableStatus, Topology } from "../api/types";
import { about, count, plural, rate, span } from "./format";

export type Tone = "ok" | "idle" | "warn" | "bad";
export interface Words {
  tone: Tone;
  words: string;
  reason?: string;
}

/** Behind by more than this, a table needs a look. */
const BEHIND_SECONDS = 10;

export function tableWords(app: AppStatus, name: string, graph?: Topology): Words {
  const table = app.tables[name] ?? {};
  const failure = app.failures.find((one) => one.table === name);
  if (failure) {
    const where = failure.batch == null ? "Failed" : `Failed in batch ${count(failure.batch)}`;
    return { tone: "bad", words: where, reason: firstLine(failure.text) };
  }
  if (app.state === "starting") return { tone: "idle", words: "Starting" };
  if (!app.running) return { tone: "idle", words: table.batch == null ? "No batch yet" : "Stopped" };
  const cause = stoppedAbove(app, name, graph);
  if (!table.running) {
    if (cause) return { tone: "idle", words: `Waits for ${cause}` };
    return { tone: "warn", words: "Not running", reason: "It stands still while the app runs, and has left no failure." };
  }
  return warning(table) ?? behind(table) ?? calm(table, cause);
}

function warning(table: TableStatus): Words | null {
  if (table.all_rejected)
    return { tone: "bad", words: "Rejects every row", reason: table.rejecting?.reason ?? "All rows of this run." };
  if (table.rejecting) {
    const { share, batch, rejected, reason } = table.rejecting;
    const words = `Rejected ${Math.round(share * 100)}% of batch ${count(batch)}`;
    return { tone: "warn", words, reason: `${plural(rejected, "row")}: ${reason}` };
  }
  if (table.dropped_partials)
    return {
      tone: "warn",
      words: "Drops partial matches",
      reason: `${count(table.dropped_partials)} beyond limit=, so matches may be missing: narrow the pattern, or raise the limit.`,
    };
  if (table.watermark_held_by) {
    const held = table.watermark_held_by;
    return {
      tone: "warn",
      words: "Watermark held back",
      reason: `${held.stream} ${held.partition} has brought no newer event time since ${held.since}.`,
    };
  }
  return null;
}

function behind(table: TableStatus): Words | null {
  const left = table.messages_left ?? 0;
  if (left > 0) {
    const speed = table.rows_per_second ?? 0;
    const seconds = speed > 0 ? left / speed : Infinity;
    const at = speed > 0 ? `about ${span(seconds)} of work at ${rate(speed)} rows/s` : "no rows are being read";
    const slow = seconds > BEHIND_SECONDS;
    return slow
      ? { tone: "warn", words: `Behind by ${plural(left, "message")}`, reason: `That is ${at}.` }
      : { tone: "ok", words: `Up to date, ${plural(left, "message")} to read` };
  }
  if (table.files_left && table.done != null && table.done < 1)
    return { tone: "ok", words: `Catching up, ${about(Math.floor(table.done * 100))}% done, ${plural(table.files_left, "file")} left` };
  return null;
}

function calm(table: TableStatus, cause: string | null): Words {
  if (cause) return { tone: "idle", words: `Waits for ${cause}` };
  if (table.batch == null) return { tone: "idle", words: "No batch yet" };
  return { tone: "ok", words: "Up to date" };
}

/** The table further up that has failed, for which this one waits. */
function stoppedAbove(app: AppStatus, name: string, graph?: Topology): string | null {
  const seen = new Set<string>();
  const waiting = [`table ${name}`];
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    for (const edge of graph?.edges ?? []) {
      if (edge.target !== id || seen.has(edge.source)) continue;
      seen.add(edge.source);
      waiting.push(edge.source);
      const above = edge.source.replace(/^(table|stream) /, "");
      if (app.failures.some((one) => one.table === above)) return above;
    }
  }
  return null;
}

export interface Finding extends Words {
  table: string | null;
}

/** What needs a person, worst first. */
export function findings(app: AppStatus, graph?: Topology): Finding[] {
  const ofApp = app.failures
    .filter((one) => one.table === null || !(one.table in app.tables))
    .map((one): Finding => ({ tone: "bad", table: null, words: one.table ? `${one.table} failed` : "The app failed", reason: firstLine(one.text) }));
  const ofTables = Object.keys(app.tables).map((name): Finding => ({ table: name, ...tableWords(app, name, graph) }));
  const worst = (one: Finding): number => (one.tone === "bad" ? 0 : 1);
  return [...ofApp, ...ofTables.filter((one) => one.tone === "bad" || one.tone === "warn")].sort((a, b) => worst(a) - worst(b));
}

const STATES: Record<AppStatus["state"], Words> = {
  running: { tone: "ok", words: "Running" },
  starting: { tone: "idle", words: "Starting" },
  stopped: { tone: "idle", words: "Stopped" },
  suspended: { tone: "warn", words: "Suspended", reason: "Its process was stopped by a signal, and holds the home." },
  "not responding": { tone: "bad", words: "Not responding", reason: "Its process lives, but has written no status for more than 10 s." },
  killed: { tone: "bad", words: "Killed", reason: "Its process has gone without an end. Started again, it goes on where it was." },
  failed: { tone: "bad", words: "Failed" },
};

export function appWords(app: AppStatus, graph?: Topology): Words {
  const state = STATES[app.state];
  if (app.state !== "running") return state;
  const found = findings(app, graph);
  if (!found.length) return state;
  const tone = found.some((one) => one.tone === "bad") ? "bad" : "warn";
  return { tone, words: `Running, ${found.length === 1 ? "one thing needs" : `${found.length} things need`} a look` };
}

export const stateOf = (state: AppStatus["state"]): Words => STATES[state];

export function firstLine(text: string): string {
  const line = text.split("\n").find((one) => one.trim() !== "") ?? "";
  return line.length > 300 ? `${line.slice(0, 300)}…` : line;
}
