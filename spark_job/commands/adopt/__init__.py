"""`adopt`: makes an existing Iceberg table the mirror."""
