-- Where to park now.
{{ config(materialized='table', on_table_exists='replace') }}
select
    name as garage,
    free,
    capacity,
    case when status <> 'open' then 'unknown' when free < 10 then 'full' else 'free' end as state,
    latitude,
    longitude,
    measured_at
from {{ source('parking', 'garages') }}
