-- Written by `tidegate export snowflake`; changes are lost when it runs again.
-- Fill in what stands in <angle brackets>. Everything can be run again: what is there stays as it is.

CREATE EXTERNAL VOLUME IF NOT EXISTS "TIDEGATE_LAKE_VOLUME"
  STORAGE_LOCATIONS = ((
    NAME = 'lake'
    STORAGE_PROVIDER = 'S3'
    STORAGE_BASE_URL = 's3://bucket/lake/'
    STORAGE_AWS_ROLE_ARN = '<arn of a role that may read the bucket>'
  ))
  ALLOW_WRITES = FALSE;

CREATE CATALOG INTEGRATION IF NOT EXISTS "TIDEGATE_LAKE_CATALOG"
  CATALOG_SOURCE = GLUE
  TABLE_FORMAT = ICEBERG
  GLUE_AWS_ROLE_ARN = '<arn of a role that may read the catalog>'
  GLUE_CATALOG_ID = '<number of the AWS account>'
  GLUE_REGION = 'eu-central-1'
  ENABLED = TRUE;

CREATE DATABASE IF NOT EXISTS "LAKE";

CREATE SCHEMA IF NOT EXISTS "LAKE"."SHOP";

CREATE ICEBERG TABLE IF NOT EXISTS "LAKE"."SHOP"."ORDERS"
  EXTERNAL_VOLUME = 'TIDEGATE_LAKE_VOLUME'
  CATALOG = 'TIDEGATE_LAKE_CATALOG'
  CATALOG_NAMESPACE = 'shop'
  CATALOG_TABLE_NAME = 'orders'
  AUTO_REFRESH = TRUE;

-- After each load:
ALTER ICEBERG TABLE "LAKE"."SHOP"."ORDERS" REFRESH;
-- Or let the project do it, at a connection of Snowflake:
--   orders: after_publish: [{sql: "ALTER ICEBERG TABLE \"LAKE\".\"SHOP\".\"ORDERS\" REFRESH", connection: <connection>}]
