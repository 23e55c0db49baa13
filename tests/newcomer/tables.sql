-- Nineteen tables as a newcomer's database has them: mixed case, spaces, reserved words, no key, composite keys, and
-- types that a lake table keeps exactly, as text, or not at all. Beside them a view, a materialized view and a table
-- that the loader may not read.

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE address AS (street text, number int);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE SCHEMA "Sales EU";

-- 1: the database itself sets the column of changes.
CREATE TABLE orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int, amount numeric(12,2) NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON orders (updated_at);
CREATE FUNCTION touched() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.updated_at := now();
  RETURN NEW;
END $$;
CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touched();
INSERT INTO orders (customer, amount) SELECT n % 7, n * 1.25 FROM generate_series(1, 200) n;

-- 2: an application sets it, in mixed case.
CREATE TABLE "Customers" (
  "Id" int PRIMARY KEY, "Full Name" text, "UpdatedAt" timestamptz NOT NULL, "Order" int
);
INSERT INTO "Customers" SELECT n, 'Name ' || n, now() - interval '2 days', n FROM generate_series(1, 20) n;

-- 3: a space in the name, a composite key, reserved words.
CREATE TABLE "order items" (
  "order" bigint, line int, "select" text, "group" numeric(10,4), PRIMARY KEY ("order", line)
);
INSERT INTO "order items" SELECT n / 3, n % 3, 'x|~' || n, n * 0.3333 FROM generate_series(1, 60) n;

-- 4: no key.
CREATE TABLE audit_log (at timestamptz DEFAULT now(), who text, payload jsonb);
INSERT INTO audit_log (who, payload) SELECT 'u' || n % 2, '{"a": [1, 2.50]}' FROM generate_series(1, 30) n;

-- 5: an enum, arrays, a document, a uuid as key.
CREATE TABLE products (
  code uuid PRIMARY KEY, feeling mood, tags text[], sizes int[], details jsonb, raw json
);
INSERT INTO products SELECT ('00000000-0000-0000-0000-0000000000' || lpad(n::text, 2, '0'))::uuid, 'happy',
  ARRAY['a', NULL, 'b,c'], ARRAY[n, 2], '{"k": "v"}', '{"k":  1}' FROM generate_series(1, 12) n;

-- 6: bytes.
CREATE TABLE files (id serial PRIMARY KEY, name varchar(40) NOT NULL, content bytea, fixed char(6));
INSERT INTO files (name, content, fixed) SELECT 'f' || n, decode(md5(n::text), 'hex'), 'ab' FROM generate_series(1, 9) n;

-- 7: numbers without bounds.
CREATE TABLE measurements (id bigserial PRIMARY KEY, value numeric, ratio double precision, small real, wide numeric(60,20));
INSERT INTO measurements (value, ratio, small, wide)
SELECT n / 7.0, n / 3.0, n / 8.0, n * 1e30 FROM generate_series(1, 25) n;

-- 8: spans of time.
CREATE TABLE shifts (id int PRIMARY KEY, lasts interval, starts time, zoned timetz, day date, local timestamp);
INSERT INTO shifts SELECT n, n * interval '1 day 2 hours', '08:30', '08:30+02', '2025-03-01', '2025-03-01 08:30:00.5'
FROM generate_series(1, 6) n;

-- 9: addresses, one of them the key.
CREATE TABLE hosts (ip inet PRIMARY KEY, net cidr, mac macaddr);
INSERT INTO hosts SELECT ('10.0.0.' || n)::inet, '10.0.0.0/24', '08:00:2b:01:02:03' FROM generate_series(1, 8) n;

-- 10: ranges.
CREATE TABLE bookings (id int PRIMARY KEY, during tstzrange, seats int4range, label text);
INSERT INTO bookings SELECT n, tstzrange('2025-01-01 00:00+01', '2025-01-02 00:00+01'), int4range(n, n + 3), 'b' || n
FROM generate_series(1, 10) n;

-- 11: a generated column.
CREATE TABLE totals (id int PRIMARY KEY, net numeric(10,2), gross numeric(10,2) GENERATED ALWAYS AS (net * 1.19) STORED);
INSERT INTO totals SELECT n, n * 10 FROM generate_series(1, 15) n;

-- 12: partitions.
CREATE TABLE events (id bigint, at date NOT NULL, kind text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE events_2024 PARTITION OF events FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE events_2025 PARTITION OF events FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
INSERT INTO events SELECT n, '2024-12-01'::date + n, 'k' || n % 3 FROM generate_series(1, 50) n;

-- 13: an empty table.
CREATE TABLE nothing_yet (id int PRIMARY KEY, note text);

-- 14: two hundred columns.
DO $$ BEGIN
  EXECUTE 'CREATE TABLE wide (id int PRIMARY KEY, ' ||
    (SELECT string_agg(format('c%s %s', n, (ARRAY['int', 'text', 'numeric(9,3)', 'date'])[n % 4 + 1]), ', ')
     FROM generate_series(1, 199) n) || ')';
END $$;
INSERT INTO wide (id, c1, c4, c8) SELECT n, 't', n, n FROM generate_series(1, 5) n;

-- 15: a composite type, an array of an enum.
CREATE TABLE people (id int PRIMARY KEY, home address, moods mood[]);
INSERT INTO people SELECT n, ROW('Main "St"', n)::address, ARRAY['ok', 'sad']::mood[] FROM generate_series(1, 7) n;

-- 16: types of every corner.
CREATE TABLE oddities (
  id positive PRIMARY KEY, price money, flags bit(8), doc xml, words tsvector, place point, times timestamptz[], yes boolean
);
INSERT INTO oddities SELECT n, n * 1000.5, n::bit(8), '<a/>', 'a b'::tsvector, point(n, n / 3.0),
  ARRAY['2025-01-01 00:00+01'::timestamptz], n % 2 = 0 FROM generate_series(1, 5) n;

-- 17: a reserved word as name and key.
CREATE TABLE "select" ("from" text PRIMARY KEY, "where" int);
INSERT INTO "select" SELECT 'k' || n, n FROM generate_series(1, 11) n;

-- 18: the column of changes may be NULL.
CREATE TABLE tickets (id int PRIMARY KEY, title text, updated_at timestamp);
INSERT INTO tickets SELECT n, 't' || n, CASE WHEN n % 3 > 0 THEN timestamp '2025-01-01' END FROM generate_series(1, 12) n;

-- 19: the name of another table, in another schema.
CREATE TABLE "Sales EU".orders (id int PRIMARY KEY, total numeric(10,2));
INSERT INTO "Sales EU".orders SELECT n, n FROM generate_series(1, 4) n;

CREATE VIEW open_orders AS SELECT * FROM orders WHERE amount > 10;
CREATE MATERIALIZED VIEW order_totals AS SELECT customer, sum(amount) AS amount FROM orders GROUP BY customer;
CREATE TABLE payroll (id int PRIMARY KEY, salary int);

CREATE ROLE loader LOGIN;
GRANT USAGE ON SCHEMA "Sales EU" TO loader;
GRANT SELECT ON ALL TABLES IN SCHEMA public, "Sales EU" TO loader;
REVOKE ALL ON payroll FROM loader;
GRANT pg_read_all_stats TO loader;
