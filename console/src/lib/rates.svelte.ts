// The rates of tables since this page was opened: the server keeps none.

import { untrack } from "svelte";
import type { AppStatus } from "../api/types";

const MOST = 150;
const seen = $state<Record<string, number[]>>({});

export function record(app: AppStatus): void {
  for (const [name, table] of Object.entries(app.tables)) {
    const key = `${app.app}\n${name}`;
    const rate = app.running && table.running ? (table.rows_per_second ?? 0) : 0;
    untrack(() => (seen[key] = [...(seen[key] ?? []), rate].slice(-MOST)));
  }
}

export const rates = (app: string, table: string): number[] => seen[`${app}\n${table}`] ?? [];
