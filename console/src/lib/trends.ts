// What a running app has recorded of its tables, a point a minute, as lines for charts.

import type { TrendPoint } from "../api/types";

export type Figure = Exclude<keyof TrendPoint, "at" | "batch">;

const known = (points: TrendPoint[], figure: Figure): [number, number][] =>
  points.flatMap((one) => (one[figure] == null ? [] : [[Date.parse(one.at), one[figure]] as [number, number]]));

export const overTime = (points: TrendPoint[], figure: Figure): number[] => known(points, figure).map(([, value]) => value);

/** How much a figure has grown an hour; null of less than ten minutes. */
export function perHour(points: TrendPoint[], figure: Figure): number | null {
  const found = known(points, figure);
  const [first, last] = [found[0], found.at(-1)];
  if (!first || !last || last[0] - first[0] < 600_000) return null;
  return Math.round(((last[1] - first[1]) / (last[0] - first[0])) * 3_600_000);
}

/** Of a figure that counts over all runs: by how much it grew from point to point. */
export function steps(points: TrendPoint[], figure: Figure): [number, number | null][] {
  return points.map((one, i) => {
    const [now, before] = [one[figure], points[i - 1]?.[figure]];
    return [Date.parse(one.at) / 1000, now == null || before == null ? null : Math.max(0, now - before)];
  });
}

export const levels = (points: TrendPoint[], figure: Figure): [number, number | null][] =>
  points.map((one) => [Date.parse(one.at) / 1000, one[figure]]);
