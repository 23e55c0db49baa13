{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key='id',
    on_schema_change='fail',
) }}
{{ tidegate_changes(source('shop', 'orders'), key=['id']) }}
