-- Written by `tidegate export snowflake`; changes are lost when it runs again.
-- Fill in what stands in <angle brackets>. Everything can be run again: what is there stays as it is.

CREATE CATALOG INTEGRATION IF NOT EXISTS "TIDEGATE_LAKE_CATALOG"
  CATALOG_SOURCE = POLARIS
  TABLE_FORMAT = ICEBERG
  REST_CONFIG = (
    CATALOG_URI = 'https://acme-lake.snowflakecomputing.com/polaris/api/catalog'
    CATALOG_NAME = 'sales'
    ACCESS_DELEGATION_MODE = VENDED_CREDENTIALS
  )
  REST_AUTHENTICATION = (
    TYPE = OAUTH
    OAUTH_CLIENT_ID = '<client id>'
    OAUTH_CLIENT_SECRET = '<client secret>'
    OAUTH_ALLOWED_SCOPES = ('PRINCIPAL_ROLE:LOADER')
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
