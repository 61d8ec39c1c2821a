# The mirrors: what docs/configuration.md says of an entry of `tables` and of `discover`. A test holds both lists against
# icemirror's own settings. Terraform drops an attribute that is in neither without a word.
locals {
  choices = {
    profile           = ["supabase-etl", "debezium", "dms", "kafka-connect", "generic"]
    connector         = ["postgres", "mysql", "sqlserver", "oracle"]
    on_missing_value  = ["stop", "set-null"]
    format_version    = ["2", "3"]
    schema_policy     = ["permissive", "strict"]
    on_dropped_column = ["keep", "drop"]
    on_truncate       = ["rebuild", "stop"]
    on_expired_cursor = ["stop", "rebuild"]
    on_bad_row        = ["stop", "quarantine"]
    delete_mode       = ["hard", "soft"]
    name_case         = ["preserve", "lower"]
  }
  sequence_formats = ["etl-hex", "number", "timestamp", "postgres-lsn", "postgres-sequence", "binlog-file", "sqlserver-lsn"]

  time = { is = "^[0-9]+(\\.[0-9]+)?\\s*(ms|s|m|h|d)?$", such_as = "a time such as 500ms, 2s, 5m, 1h or 7d" }
  # Of a unit of time; a number alone is seconds.
  seconds = { ms = 0.001, s = 1, m = 60, h = 3600, d = 86400 }
  forms = {
    min_interval        = local.time
    tombstone_retention = local.time
    group               = { is = "^[a-z0-9][a-z0-9-]{0,30}$", such_as = "31 small letters, digits and dashes at most" }
    rejects_table       = { is = "^[^.*]+(\\.[^.*]+)?$", such_as = "a table's name or database.table" }
  }
  partition = join("|", [
    "^[^][(),]+$",
    "^\\s*(identity|year|month|day|hour)\\s*\\([^][(),]+\\)\\s*$",
    "^\\s*(bucket|truncate)\\s*\\[\\s*0*[1-9][0-9]*\\s*\\]\\([^][(),]+\\)\\s*$",
  ])
  paths = ["write.data.path", "write.metadata.path"]
}

variable "tables" {
  type = list(object({
    changelog           = string
    mirror              = string
    primary_keys        = optional(list(string))
    profile             = optional(string)
    connector           = optional(string)
    operation_column    = optional(string)
    operation_values    = optional(object({ insert = optional(list(string)), update = optional(list(string)), delete = optional(list(string)), truncate = optional(list(string)), ignore = optional(list(string)) }))
    upsert_only         = optional(bool)
    delete_column       = optional(string)
    sequence_column     = optional(list(string))
    sequence_format     = optional(map(string))
    old_key_columns     = optional(map(string))
    unchanged_value     = optional(string)
    on_missing_value    = optional(string)
    keep_columns        = optional(list(string))
    append_only         = optional(bool)
    partition_by        = optional(list(string))
    format_version      = optional(number)
    schema_policy       = optional(string)
    on_dropped_column   = optional(string)
    on_truncate         = optional(string)
    on_expired_cursor   = optional(string)
    on_bad_row          = optional(string)
    rejects_table       = optional(string)
    reject_limit        = optional(number)
    delete_mode         = optional(string)
    deleted_column      = optional(string)
    columns             = optional(object({ include = optional(list(string)), exclude = optional(list(string)) }))
    metadata_columns    = optional(object({ synced_at = optional(string), source_sequence = optional(string), created_at = optional(string) }))
    name_case           = optional(string)
    min_interval        = optional(string)
    tombstone_retention = optional(string)
    compact             = optional(bool)
    group               = optional(string)
    table_properties    = optional(map(string))
  }))
  description = "The mirrors to keep: dotted names of changelog and mirror in Glue (database.table), and what docs/configuration.md says of a table."
  default     = []

  validation {
    condition     = alltrue([for table in var.tables : can(regex("^[^.*]+\\.[^.*]+$", table.changelog)) && can(regex("^[^.*]+\\.[^.*]+$", table.mirror))])
    error_message = "Each changelog and each mirror is a dotted name, database.table."
  }

  validation {
    condition = alltrue(flatten([
      for table in var.tables : [for option, known in local.choices : try(contains(known, tostring(table[option])), table[option] == null)]
    ]))
    error_message = join("\n", flatten([
      for table in var.tables : [
        for option, known in local.choices : "${table.mirror}: ${option} is ${table[option]}, not one of ${join(", ", known)}."
        if !try(contains(known, tostring(table[option])), table[option] == null)
      ]
    ]))
  }

  validation {
    condition = alltrue(flatten([
      for table in var.tables : [for option, form in local.forms : table[option] == null || can(regex(form.is, table[option]))]
    ]))
    error_message = join("\n", flatten([
      for table in var.tables : [
        for option, form in local.forms : "${table.mirror}: ${option} is ${table[option]}, not ${form.such_as}."
        if table[option] != null && !can(regex(form.is, table[option]))
      ]
    ]))
  }

  validation {
    condition = alltrue(flatten([
      for table in var.tables : [for partition in coalesce(table.partition_by, []) : can(regex(local.partition, partition))]
    ]))
    error_message = "A partition is a column's name, year(c), month(c), day(c), hour(c), identity(c), bucket[16](c) or truncate[4](c)."
  }

  validation {
    condition = alltrue(flatten([
      for table in var.tables : [for format in values(coalesce(table.sequence_format, {})) : contains(local.sequence_formats, format)]
    ]))
    error_message = "A sequence_format is one of ${join(", ", local.sequence_formats)}."
  }

  validation {
    condition = alltrue(flatten([
      for table in var.tables : [for name, value in coalesce(table.table_properties, {}) : !contains(local.paths, name) || startswith(value, var.mirrors)]
    ]))
    error_message = "${join(" and ", local.paths)} of table_properties are below `mirrors`: nowhere else may jobs write."
  }

  validation {
    condition     = alltrue([for table in var.tables : table.reject_limit == null ? true : table.reject_limit > 0 && table.reject_limit <= 1])
    error_message = "reject_limit is a share: more than 0, and 1 at most."
  }

  validation {
    condition     = alltrue([for table in var.tables : table.connector == null || table.profile == "debezium"])
    error_message = "Only the profile debezium has connectors."
  }

  validation {
    condition     = alltrue([for table in var.tables : table.columns == null ? true : table.columns.include == null || length(coalesce(table.columns.exclude, [])) == 0])
    error_message = "columns has either include or exclude."
  }

  validation {
    condition     = alltrue([for table in var.tables : table.append_only != true || length(coalesce(table.primary_keys, [])) == 0])
    error_message = "An append_only table has no key: remove append_only or primary_keys."
  }
}

variable "discover" {
  type = list(object({
    namespace           = string
    match               = string
    mirror_namespace    = string
    primary_keys        = optional(list(string))
    profile             = optional(string)
    connector           = optional(string)
    operation_column    = optional(string)
    operation_values    = optional(object({ insert = optional(list(string)), update = optional(list(string)), delete = optional(list(string)), truncate = optional(list(string)), ignore = optional(list(string)) }))
    upsert_only         = optional(bool)
    delete_column       = optional(string)
    sequence_column     = optional(list(string))
    sequence_format     = optional(map(string))
    old_key_columns     = optional(map(string))
    unchanged_value     = optional(string)
    on_missing_value    = optional(string)
    keep_columns        = optional(list(string))
    append_only         = optional(bool)
    partition_by        = optional(list(string))
    format_version      = optional(number)
    schema_policy       = optional(string)
    on_dropped_column   = optional(string)
    on_truncate         = optional(string)
    on_expired_cursor   = optional(string)
    on_bad_row          = optional(string)
    rejects_table       = optional(string)
    reject_limit        = optional(number)
    delete_mode         = optional(string)
    deleted_column      = optional(string)
    columns             = optional(object({ include = optional(list(string)), exclude = optional(list(string)) }))
    metadata_columns    = optional(object({ synced_at = optional(string), source_sequence = optional(string), created_at = optional(string) }))
    name_case           = optional(string)
    min_interval        = optional(string)
    tombstone_retention = optional(string)
    compact             = optional(bool)
    group               = optional(string)
    table_properties    = optional(map(string))
  }))
  description = "Every matching changelog of a Glue database becomes a table, with the options of `tables`. Roles then reach all tables of both databases."
  default     = []

  validation {
    condition     = length(var.tables) + length(var.discover) > 0
    error_message = "Name at least one of `tables`, or `discover` them."
  }

  validation {
    condition     = alltrue([for one in var.discover : length(regexall("\\*", one.match)) == 1])
    error_message = "`match` has one *, for the mirror's name: *_changelog."
  }

  validation {
    condition     = alltrue([for one in var.discover : one.rejects_table == null])
    error_message = "The tables that are found would share a rejects_table: leave it out, and each has its own."
  }

  validation {
    condition = alltrue(flatten([
      for one in var.discover : [for option, known in local.choices : try(contains(known, tostring(one[option])), one[option] == null)]
    ]))
    error_message = join("\n", flatten([
      for one in var.discover : [
        for option, known in local.choices : "${one.namespace}: ${option} is ${one[option]}, not one of ${join(", ", known)}."
        if !try(contains(known, tostring(one[option])), one[option] == null)
      ]
    ]))
  }

  validation {
    condition = alltrue(flatten([
      for one in var.discover : [for option, form in local.forms : one[option] == null || can(regex(form.is, one[option]))]
    ]))
    error_message = join("\n", flatten([
      for one in var.discover : [
        for option, form in local.forms : "${one.namespace}: ${option} is ${one[option]}, not ${form.such_as}."
        if one[option] != null && !can(regex(form.is, one[option]))
      ]
    ]))
  }

  validation {
    condition = alltrue(flatten([
      for one in var.discover : [for partition in coalesce(one.partition_by, []) : can(regex(local.partition, partition))]
    ]))
    error_message = "A partition is a column's name, year(c), month(c), day(c), hour(c), identity(c), bucket[16](c) or truncate[4](c)."
  }

  validation {
    condition = alltrue(flatten([
      for one in var.discover : [for format in values(coalesce(one.sequence_format, {})) : contains(local.sequence_formats, format)]
    ]))
    error_message = "A sequence_format is one of ${join(", ", local.sequence_formats)}."
  }

  validation {
    condition = alltrue(flatten([
      for one in var.discover : [for name, value in coalesce(one.table_properties, {}) : !contains(local.paths, name) || startswith(value, var.mirrors)]
    ]))
    error_message = "${join(" and ", local.paths)} of table_properties are below `mirrors`: nowhere else may jobs write."
  }

  validation {
    condition     = alltrue([for one in var.discover : one.reject_limit == null ? true : one.reject_limit > 0 && one.reject_limit <= 1])
    error_message = "reject_limit is a share: more than 0, and 1 at most."
  }

  validation {
    condition     = alltrue([for one in var.discover : one.connector == null || one.profile == "debezium"])
    error_message = "Only the profile debezium has connectors."
  }

  validation {
    condition     = alltrue([for one in var.discover : one.columns == null ? true : one.columns.include == null || length(coalesce(one.columns.exclude, [])) == 0])
    error_message = "columns has either include or exclude."
  }

  validation {
    condition     = alltrue([for one in var.discover : one.append_only != true || length(coalesce(one.primary_keys, [])) == 0])
    error_message = "An append_only table has no key: remove append_only or primary_keys."
  }
}
