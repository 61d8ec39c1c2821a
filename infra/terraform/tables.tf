# The mirrors. An entry takes every table option of docs/reference/configuration.md and reaches the configuration unchanged.
# Options are checked against table_options.json, which is generated from icemirror's settings. Terraform validates only
# what it uses itself (names and paths in policies); `icemirror config` and the function check the rest.
locals {
  table_options = jsondecode(file("${path.module}/table_options.json"))
  duration      = local.table_options.patterns.min_interval

  entries = concat(
    [for table in var.tables : { name = table.mirror, known = local.table_options.names.tables, options = table }],
    [for database in var.discover : { name = database.namespace, known = local.table_options.names.discover, options = database }],
  )
  option_errors = flatten([for entry in local.entries : concat(
    [
      for option in keys(entry.options) : "${entry.name}: unknown option ${option}. docs/reference/configuration.md lists the options of a table."
      if !contains(entry.known, option)
    ],
    [
      for option, values in local.table_options.choices : "${entry.name}: ${option} is ${jsonencode(entry.options[option])}. Use one of: ${join(", ", values)}."
      if try(entry.options[option], null) != null && !try(contains(values, tostring(entry.options[option])), false)
    ],
    [
      for option, form in local.table_options.patterns : "${entry.name}: ${option} is ${jsonencode(entry.options[option])}. Use ${form.hint}."
      if try(entry.options[option], null) != null && !can(regex(form.pattern, entry.options[option]))
    ],
  )])

  # Drops null values, because the settings refuse them: in an entry, and in its nested objects.
  settings_of = { for variable, entries in { tables = var.tables, discover = var.discover } : variable => [for entry in entries : merge(
    { for key, value in entry : key => value if value != null && !can(keys(value)) },
    { for key, value in entry : key => { for name, inner in value : name => inner if inner != null } if can(keys(value)) },
  )] }

  paths = ["write.data.path", "write.metadata.path"]
}

variable "tables" {
  type        = any
  description = "Mirrors to maintain: a list of objects with `changelog` and `mirror` (each database.table in Glue) and any table option of docs/reference/configuration.md."
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for table in var.tables : can(regex("^[^.*]+\\.[^.*]+$", table.changelog)) && can(regex("^[^.*]+\\.[^.*]+$", table.mirror))])
    error_message = "Each table needs changelog and mirror, both written as database.table."
  }

  validation {
    condition     = alltrue([for table in var.tables : try(table.rejects_table, null) == null || can(regex("^[^.*]+(\\.[^.*]+)?$", table.rejects_table))])
    error_message = "rejects_table must be a table name or database.table."
  }

  validation {
    condition = alltrue(flatten([
      for table in var.tables : [for path in local.paths : try(startswith(table.table_properties[path], var.mirrors), true)]
    ]))
    error_message = "${join(" and ", local.paths)} in table_properties must be below `mirrors`. Jobs can write nowhere else."
  }
}

variable "discover" {
  type        = any
  description = "Glue databases in which every matching changelog becomes a table: a list of objects with `namespace`, `match`, `mirror_namespace` and any table option. The roles then reach all tables of both databases."
  default     = []
  nullable    = false

  validation {
    condition     = length(var.tables) + length(var.discover) > 0
    error_message = "Set `tables` or `discover`: there is no table to mirror."
  }

  validation {
    condition     = alltrue([for database in var.discover : can([database.namespace, database.mirror_namespace]) && try(length(regexall("\\*", database.match)) == 1, false)])
    error_message = "Each entry needs namespace, mirror_namespace and match. `match` contains one *, which matches the mirror's name: *_changelog."
  }

  validation {
    condition     = alltrue([for database in var.discover : try(database.rejects_table, null) == null])
    error_message = "Remove rejects_table: discovered tables cannot share one. By default each table has a separate one."
  }

  validation {
    condition = alltrue(flatten([
      for database in var.discover : [for path in local.paths : try(startswith(database.table_properties[path], var.mirrors), true)]
    ]))
    error_message = "${join(" and ", local.paths)} in table_properties must be below `mirrors`. Jobs can write nowhere else."
  }
}
