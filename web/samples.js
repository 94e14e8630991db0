/* samples.js - the server's samples as numbers: rows by name, percentiles of times, CSV. No screen here. */

export class Samples {
  constructor({ fields, gauges, buckets }, rows = []) {
    this.fields = fields;
    this.gauges = gauges;
    this.buckets = buckets;
    this.at = Object.fromEntries(fields.map((name, i) => [name, i]));
    this.rows = [];
    rows.forEach((row) => this.add(row));
  }

  add(row) {
    const last = this.rows.at(-1);
    if (last && row[0] <= last[0]) return false;
    this.rows.push(row);
    if (this.rows.length > 900) this.rows.shift();
    return true;
  }

  /** Those of the last `minutes`. */
  last(minutes) {
    const newest = this.rows.at(-1)?.[0] ?? 0;
    return this.rows.filter((row) => row[0] > newest - minutes * 60000);
  }

  value(row, name) {
    return row[this.at[name]];
  }

  /** A counter's rate a second. */
  rate(row, name) {
    return row[1] > 0 ? this.value(row, name) / row[1] : 0;
  }

  sum(rows, name) {
    return rows.reduce((sum, row) => sum + this.value(row, name), 0);
  }

  /** The middle of a bucket, in milliseconds. */
  time(bucket) {
    return this.buckets.least_ms * 2 ** ((bucket + 0.5) / this.buckets.per_octave);
  }

  /** Percentiles of "ttft" or "tpot" over some rows; nulls where no reply ended. */
  percentiles(rows, name, shares) {
    const counts = new Map();
    let total = 0;
    for (const row of rows)
      for (const [bucket, count] of this.value(row, name)) {
        counts.set(bucket, (counts.get(bucket) || 0) + count);
        total += count;
      }
    if (!total) return shares.map(() => null);
    const sorted = [...counts].sort((a, b) => a[0] - b[0]);
    return shares.map((share) => {
      let left = share * total;
      for (const [bucket, count] of sorted) if ((left -= count) <= 0) return this.time(bucket);
      return this.time(sorted.at(-1)[0]);
    });
  }

  csv(rows) {
    const plain = this.fields.slice(0, -2);
    const shares = [0.5, 0.95, 0.99];
    const head = [...plain, ...["ttft", "tpot"].flatMap((name) => shares.map((s) => `${name}_p${100 * s}_ms`))];
    const lines = rows.map((row) => [...row.slice(0, plain.length),
      ...["ttft", "tpot"].flatMap((name) => this.percentiles([row], name, shares).map((x) => (x == null ? "" : x.toFixed(2))))].join(","));
    return [head.join(","), ...lines].join("\n") + "\n";
  }
}
