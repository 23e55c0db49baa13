-- How full each garage was in each hour. A run rebuilds those hours of which a reading was reported since the last run,
-- however late that reading was.
{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key=['garage_id', 'hour'],
    on_schema_change='fail',
) }}
with readings as (
    select date_trunc('hour', measured_at) as hour, garage_id, free, capacity, reported_at
    from {{ source('parking', 'readings') }}
)

select
    garage_id,
    hour,
    1 - avg(cast(free as double) / capacity) as occupancy,
    min(free) as least_free,
    count(*) as readings,
    max(reported_at) as reported_through
from readings
{% if is_incremental() %}
where hour in (
    select hour from readings where reported_at >= (select max(reported_through) from {{ this }})
)
{% endif %}
group by garage_id, hour
