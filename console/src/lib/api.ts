// Requests to the server that sent this page, and its errors.

import type { Error as ErrorDocument } from "../api/types";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly body: ErrorDocument["error"],
  ) {
    super(body.what);
  }
}

// The server did not answer at all.
export class Unreachable extends Error {}

export async function get<T>(address: string, signal?: AbortSignal): Promise<T> {
  let response: Response;
  let text: string;
  try {
    response = await fetch(address, { headers: { accept: "application/json" }, ...(signal ? { signal } : {}) });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Unreachable("The server does not answer.");
  }
  const document = parsed(text);
  if (!response.ok) throw new ApiError(response.status, described(document, response));
  return document as T;
}

function described(document: unknown, response: Response): ErrorDocument["error"] {
  if (typeof document === "object" && document !== null && "error" in document)
    return (document as ErrorDocument).error;
  const what = `The server answered ${response.status} ${response.statusText}`;
  return { reason: "failed", status: response.status, what, where: null, given: null, hint: null, near: [] };
}

// Whole numbers beyond 2^53 stay as their digits.
function parsed(text: string): unknown {
  type Reviver = (this: unknown, name: string, value: unknown, context?: { source?: string }) => unknown;
  const revive: Reviver = (_name, value, context) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source
      ? context.source
      : value;
  try {
    return (JSON.parse as (text: string, reviver: Reviver) => unknown)(text, revive);
  } catch {
    return null;
  }
}
