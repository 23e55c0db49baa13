{#
  What happened to a table that Tidegate loads since a model read it last: one row for each key that changed, with the
  columns of the table and

    _tidegate_deleted  whether the key has left the table; its other columns are then NULL
    _tidegate_version  the table's snapshot that this run reads
    _tidegate_batch    the number of this run of the model, from 1

  The model must be incremental, merge by `key`, and keep all of these rows: the last two columns say where the next run
  begins. A deleted row stays as a mark; `where not _tidegate_deleted` is the table.

  The end of the range is the table's own snapshot, never the newest row of the table of loads, which may be late. The
  beginning is what this model has read, whatever was loaded since, in however many loads. Without a beginning (first
  run, full refresh, a snapshot that has expired) the whole table is compared with the model.
#}
{% macro tidegate_changes(relation, key) %}
  {%- set columns = adapter.get_columns_in_relation(relation) | map(attribute='quoted') | list if execute else ['*'] -%}
  {%- set listed = columns | join(', ') -%}
  {%- set keys = key | join(', ') -%}
  {%- set upto = tidegate_snapshot(relation) -%}
  {%- set read = tidegate_read(relation) -%}
  {%- set batch = (read.batch or 0) + 1 -%}
  {%- if not is_incremental() %}
select {{ listed }}, false as _tidegate_deleted, {{ upto }} as _tidegate_version, bigint '1' as _tidegate_batch
from {{ relation }} for version as of {{ upto }}
  {%- else %}
with
  {%- if read.version is none %}
  now_there as (select {{ listed }} from {{ relation }} for version as of {{ upto }}),
  was_there as (select {{ keys }} from {{ this }} where not _tidegate_deleted),
  {%- elif read.version | string == upto | string %}
  now_there as (select {{ listed }} from {{ relation }} where false),
  was_there as (select {{ keys }} from {{ relation }} where false),
  {%- else %}
  now_there as (
    select {{ listed }} from {{ relation }} for version as of {{ upto }}
    except all select {{ listed }} from {{ relation }} for version as of {{ read.version }}
  ),
  old as (
    select {{ listed }} from {{ relation }} for version as of {{ read.version }}
    except all select {{ listed }} from {{ relation }} for version as of {{ upto }}
  ),
  was_there as (select {{ keys }} from old),
  {%- endif %}
  gone as (select {{ keys }} from was_there except select {{ keys }} from now_there)
select {{ listed }}, false as _tidegate_deleted, {{ upto }} as _tidegate_version, bigint '{{ batch }}' as _tidegate_batch
from now_there
union all
select
    {%- for column in columns %}
    {%- if column in key or column | replace('"', '') in key %} {{ column }}{% else %} null{% endif %},
    {%- endfor %}
    true, {{ upto }}, bigint '{{ batch }}'
from gone
  {%- endif %}
{% endmacro %}


{# The snapshot of a table that readers see now. #}
{% macro tidegate_snapshot(relation) %}
  {%- if not execute %}{{ return(0) }}{% endif -%}
  {%- set refs = tidegate_metadata(relation, 'refs') -%}
  {%- set found = run_query("select snapshot_id from " ~ refs ~ " where name = 'main' and type = 'BRANCH'") -%}
  {%- if not found.rows %}
    {{ exceptions.raise_compiler_error(relation ~ " has no snapshot: load it first, with `tidegate run`") }}
  {%- endif -%}
  {{ return(found.rows[0][0]) }}
{% endmacro %}


{# What this model has read: `batch`, and `version` if that snapshot is still kept. #}
{% macro tidegate_read(relation) %}
  {%- if not execute or not is_incremental() %}{{ return({'batch': none, 'version': none}) }}{% endif -%}
  {%- set found = run_query("select _tidegate_batch, _tidegate_version from " ~ this
      ~ " order by _tidegate_batch desc limit 1") -%}
  {%- if not found.rows %}{{ return({'batch': none, 'version': none}) }}{% endif -%}
  {%- set batch, version = found.rows[0][0], found.rows[0][1] -%}
  {%- set snapshots = tidegate_metadata(relation, 'snapshots') -%}
  {%- set kept = run_query("select 1 from " ~ snapshots ~ " where snapshot_id = " ~ version).rows -%}
  {{ return({'batch': batch, 'version': version if kept else none}) }}
{% endmacro %}


{% macro tidegate_metadata(relation, what) %}
  {{ return('"' ~ relation.database ~ '"."' ~ relation.schema ~ '"."' ~ relation.identifier ~ '$' ~ what ~ '"') }}
{% endmacro %}
