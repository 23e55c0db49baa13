select * from {{ ref('orders_changes') }} where not _tidegate_deleted
