-- Written by `tidegate export snowflake`; changes are lost when it runs again.
-- Fill in what stands in <angle brackets>. Everything can be run again: what is there stays as it is.

CREATE EXTERNAL VOLUME IF NOT EXISTS "TIDEGATE_LAKE_VOLUME"
  STORAGE_LOCATIONS = ((
    NAME = 'lake'
    STORAGE_PROVIDER = 'S3COMPAT'
    STORAGE_BASE_URL = 's3compat://bucket/'
    STORAGE_ENDPOINT = 'store.example'
    CREDENTIALS = (AWS_KEY_ID = '<key id>' AWS_SECRET_KEY = '<secret key>')
  ))
  ALLOW_WRITES = FALSE;

CREATE CATALOG INTEGRATION IF NOT EXISTS "TIDEGATE_LAKE_CATALOG"
  CATALOG_SOURCE = OBJECT_STORE
  TABLE_FORMAT = ICEBERG
  ENABLED = TRUE;

CREATE DATABASE IF NOT EXISTS "LAKE";

CREATE SCHEMA IF NOT EXISTS "LAKE"."SHOP";

CREATE ICEBERG TABLE IF NOT EXISTS "LAKE"."SHOP"."ORDERS"
  EXTERNAL_VOLUME = 'TIDEGATE_LAKE_VOLUME'
  CATALOG = 'TIDEGATE_LAKE_CATALOG'
  METADATA_FILE_PATH = 'shop/orders/metadata/1.metadata.json';

-- After each load:
ALTER ICEBERG TABLE "LAKE"."SHOP"."ORDERS" REFRESH 'shop/orders/metadata/1.metadata.json';
-- A table with a path there shows that file's rows for ever: no catalog tells Snowflake of newer ones.
-- Run this command again after each load, and its last statements.
