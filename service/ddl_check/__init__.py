"""What would a DDL statement do to a changefeed? Pure: tables, settings and a registry's answers in, a report out."""
