-- What to expect at an hour of the week: the mean of the same hours so far. A materialized view, because it reads all
-- hours and changes once an hour; it is in the catalog `marts`, whose metastore is one that can keep such views.
{{ config(materialized='materialized_view') }}
select
    garage_id,
    day_of_week(hour) as weekday,
    hour(hour) as hour_of_day,
    avg(occupancy) as expected_occupancy,
    count(*) as weeks
from {{ ref('occupancy_by_hour') }}
group by garage_id, day_of_week(hour), hour(hour)
