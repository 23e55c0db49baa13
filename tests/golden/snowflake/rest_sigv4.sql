-- Written by `tidegate export snowflake`; changes are lost when it runs again.
-- Fill in what stands in <angle brackets>. Everything can be run again: what is there stays as it is.

CREATE CATALOG INTEGRATION IF NOT EXISTS "TIDEGATE_LAKE_CATALOG"
  CATALOG_SOURCE = ICEBERG_REST
  TABLE_FORMAT = ICEBERG
  REST_CONFIG = (
    CATALOG_URI = 'https://glue.eu-central-1.amazonaws.com/iceberg'
    CATALOG_NAME = '123456789012'
    ACCESS_DELEGATION_MODE = VENDED_CREDENTIALS
  )
  REST_AUTHENTICATION = (
    TYPE = SIGV4
    SIGV4_IAM_ROLE = '<arn of a role>'
    SIGV4_SIGNING_REGION = 'eu-central-1'
  )
  ENABLED = TRUE;

CREATE DATABASE IF NOT EXISTS "LAKE";

CREATE SCHEMA IF NOT EXISTS "LAKE"."SHOP";

CREATE ICEBERG TABLE IF NOT EXISTS "LAKE"."SHOP"."ORDERS"
  CATALOG = 'TIDEGATE_LAKE_CATALOG'
  CATALOG_NAMESPACE = 'shop'
  CATALOG_TABLE_NAME = 'orders'
  AUTO_REFRESH = TRUE;

-- After each load:
ALTER ICEBERG TABLE "LAKE"."SHOP"."ORDERS" REFRESH;
-- Or let the project do it, at a connection of Snowflake:
--   orders: after_publish: [{sql: "ALTER ICEBERG TABLE \"LAKE\".\"SHOP\".\"ORDERS\" REFRESH", connection: <connection>}]
