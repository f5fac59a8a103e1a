// Loads an address, and loads it again every few seconds while the page is seen.

import { ApiError, get, Unreachable } from "./api";

export interface Loaded<T> {
  readonly data: T | undefined;
  readonly error: Error | undefined;
  /** Whether what is shown is older than it should be, since the server does not answer. */
  readonly stale: boolean;
  readonly at: number;
  again(): void;
}

const SLOWEST_MS = 10_000;

export function load<T>(address: () => string | null, everyMs?: number): Loaded<T> {
  const state = $state<{ data: T | undefined; error: Error | undefined; at: number; round: number; of: string }>({
    data: undefined,
    error: undefined,
    at: 0,
    round: 0,
    of: "",
  });

  $effect(() => {
    const wanted = address();
    void state.round;
    if (wanted === null) return;
    const aborter = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    const run = async (): Promise<void> => {
      clearTimeout(timer);
      try {
        const found = await get<T>(wanted, aborter.signal);
        Object.assign(state, { data: found, error: undefined, at: Date.now(), of: wanted });
        failures = 0;
      } catch (error) {
        if (aborter.signal.aborted) return;
        failures += 1;
        // What was loaded from this address stays in sight while the server is away.
        if (!(error instanceof Unreachable) || state.of !== wanted) state.data = undefined;
        state.error = error as Error;
      }
      // What is wrong with the request itself does not pass.
      if (state.error instanceof ApiError && state.error.status === 400) return;
      const pause = failures ? Math.min((everyMs ?? 2000) * 2 ** (failures - 1), SLOWEST_MS) : everyMs;
      const wait = everyMs === undefined && !(state.error instanceof Unreachable) ? undefined : pause;
      if (wait !== undefined && !aborter.signal.aborted && !document.hidden) timer = setTimeout(run, wait);
    };
    const seen = (): void => {
      if (!document.hidden && everyMs !== undefined) void run();
      else clearTimeout(timer);
    };
    document.addEventListener("visibilitychange", seen);
    void run();
    return () => {
      aborter.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  });

  return {
    get data() {
      return state.data;
    },
    get error() {
      return state.error;
    },
    get stale() {
      return state.error instanceof Unreachable && state.data !== undefined;
    },
    get at() {
      return state.at;
    },
    again() {
      state.round += 1;
    },
  };
}
